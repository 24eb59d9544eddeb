//! Chunks by themselves: filled, closed, emptied and freed by one thread.

use super::*;
use crate::item::Callable;
use crate::item::chunk::open::OpenChunk;
use crate::item::chunk::part::Part;

/// Takes everything out of a chunk that is in no inbox any more, and calls it. Returns the number of entries.
fn use_up(node: NonNull<RawWork>) -> usize {
    // SAFETY: from `make`, and taken once.
    let part = unsafe { Part::close(node) };
    for index in 0..part.len() {
        let Found::Closure(closure) = part.take(index) else {
            panic!("closures were put in");
        };
        assert!(closure.call().is_ok());
    }
    part.len()
}

fn nothing() -> Small {
    Small::of(|| {}).unwrap_or_else(|_| unreachable!("it has no size at all"))
}

#[test]
fn a_thread_adds_to_its_chunk_until_that_is_full_or_taken() {
    let chunks = ChunkStore::of_closures(1, 0, &OldestBatch::new(), &ChunkNumbers::default());
    let open = OpenChunk::none();
    assert!(
        !open.add_closure(chunks.serial(), &nothing()),
        "there is none"
    );
    let full = chunks.make(&nothing(), &open, MOST);
    for _ in 1..MOST {
        assert!(open.add_closure(chunks.serial(), &nothing()));
    }
    assert!(!open.add_closure(chunks.serial(), &nothing()), "it is full");
    let others = ChunkStore::of_closures(1, 1, &OldestBatch::new(), &ChunkNumbers::default());
    let taken = chunks.make(&nothing(), &open, MOST);
    assert!(
        !open.add_closure(others.serial(), &nothing()),
        "it is not theirs"
    );
    assert!(open.add_closure(chunks.serial(), &nothing()));
    assert_eq!(use_up(full), MOST);
    assert_eq!(use_up(taken), 2);
    assert!(
        !open.add_closure(chunks.serial(), &nothing()),
        "it is taken"
    );
    assert_eq!(open.end(), 2);
    assert_eq!(open.end(), 0);
}

#[test]
fn chunks_that_nobody_needs_are_freed_but_for_a_few() {
    let chunks = ChunkStore::of_closures(1, 0, &OldestBatch::new(), &ChunkNumbers::default());
    let spare = || chunks.spare.lock().others.len();
    let open = OpenChunk::none();
    let nodes: Vec<NonNull<RawWork>> = (0..20)
        .map(|_| chunks.make(&nothing(), &open, MOST))
        .collect();
    for &node in &nodes {
        assert_eq!(use_up(node), 1);
    }
    assert_eq!(spare(), 19, "one is still its maker's");
    open.leave();
    assert_eq!(spare(), 20);
    chunks.trim();
    assert_eq!(spare(), 20, "all were used since the last time");
    // Two of them are in use, and one more is prefetched.
    let nodes = [(); 2].map(|()| chunks.make(&nothing(), &open, MOST));
    open.leave();
    assert_eq!(spare(), 17);
    chunks.trim();
    assert_eq!(spare(), KEPT);
    assert_eq!(nodes.map(use_up), [1, 1]);
    assert_eq!(spare(), KEPT + 2);
}

/// Tables of a pool are as long as the largest number, and there are not more numbers than fit into
/// an item's location.
#[test]
fn the_number_of_a_chunk_that_is_freed_is_used_again() {
    let numbers = ChunkNumbers::default();
    for _ in 0..3 {
        let chunks = ChunkStore::of_closures(1, 0, &OldestBatch::new(), &numbers);
        let open = OpenChunk::none();
        let nodes: Vec<NonNull<RawWork>> = (0..20)
            .map(|_| chunks.make(&nothing(), &open, MOST))
            .collect();
        nodes
            .into_iter()
            .for_each(|node| assert_eq!(use_up(node), 1));
    }
    let free = numbers.take();
    assert!(free < 30, "{free} chunks have kept their numbers");
}

#[test]
fn a_chunk_is_used_again_though_its_maker_has_ended_without_a_word() {
    let chunks = ChunkStore::of_closures(1, 0, &OldestBatch::new(), &ChunkNumbers::default());
    let open = OpenChunk::none();
    let node = chunks.make(&nothing(), &open, MOST);
    drop(open);
    assert_eq!(use_up(node), 1);
    assert_eq!(chunks.spare.lock().others.len(), 1);
}
