//! A thread that looks for an item while workers take batches.

use super::*;
use crate::Work;
use crate::pool::lock::holds::most_in_a_hold;

/// Otherwise a flush would not find the run of its item, and return while the item runs.
#[test]
fn a_search_closes_what_was_opened_between_two_holdings_of_the_lock() {
    let items = raw_items::<4>();
    let sought = RawWork::new(nothing);
    let others: Vec<Work> = (0..=most_in_a_hold()).map(|_| Work::new(|| ())).collect();
    let (_engine, wq, pool) = queue(1, 1_000);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    // The monitor would close the batch.
    guard.watched = true;
    let index = accept(&mut guard, &items);
    let taken = hand.take(&mut guard);
    guard.close_batches();
    drop(guard);
    for work in &others {
        let mut item = work.claim().expect("idle");
        item.set_destination(pool.id, index);
        pool.inbox.push(item);
    }
    let mut open = Vec::new();
    let mut again = Hand::new(&pool);
    let mut next = None;
    let (guard, found) = pool.find(&sought, |guard| {
        open.push(guard.batches.len());
        next.get_or_insert_with(|| again.take(guard));
        None::<()>
    });
    drop(guard);
    again.run(next.expect("it has looked").0);
    hand.run(taken.0);
    wq.flush().expect("not from an item");
    assert_eq!(found, None);
    assert!(open.len() > 1, "one holding was enough");
    assert!(open.iter().all(|&open| open == 0), "{open:?}");
}
