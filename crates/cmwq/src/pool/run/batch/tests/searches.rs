//! Searches for an item while workers take batches.

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
    let [mut first, mut second] = [0, 1].map(|_| Hand::new(&pool));
    let mut guard = pool.lock();
    // The monitor would close the batch.
    guard.watched = true;
    let index = accept(&mut guard, &items);
    // While this worker runs, no worker of the engine is woken.
    let (its_task, _) = first.take(&mut guard);
    guard.close_batches();
    drop(guard);
    for work in &others {
        let mut item = work.claim().expect("idle");
        item.set_destination(pool.id, index);
        pool.inbox.push(item);
    }
    let mut open = Vec::new();
    let mut taken = None;
    let (guard, found) = pool.find(&sought, |guard| {
        open.push(guard.batches.len());
        taken.get_or_insert_with(|| second.take(guard));
        None::<()>
    });
    drop(guard);
    second.run(taken.expect("the search has looked").0);
    first.run(its_task);
    wq.flush().expect("not from an item");
    assert_eq!(found, None);
    assert!(open.len() > 1, "one holding was enough");
    assert!(open.iter().all(|&open| open == 0), "{open:?}");
}
