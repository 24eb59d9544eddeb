//! One limit for two queues. In any interleaving, an item that ends passes its credit on to the
//! next waiter, and no two items have the credit at the same time.

use super::*;
use crate::ConcurrencyGroup;
use crate::workqueue::parts::group::Member;
use std::sync::Weak;

impl Member for Queue {
    fn pwqs(&self) -> Vec<Arc<Pwq>> {
        self.members()
    }
}

/// Makes a queue that belongs to the group.
fn member(group: &ConcurrencyGroup, max_active: i32) -> Arc<Queue> {
    let wq = Queue::in_group(max_active, Some(group.clone()));
    let own: Weak<Queue> = Arc::downgrade(&wq);
    group.join(own);
    wq
}

fn check(group: &ConcurrencyGroup, items: &[Arc<Item>]) {
    assert!(items.iter().all(|item| item.runs() == 1));
    let held = group.state().held;
    assert!(held <= group.max_active(), "{held}");
}

#[test]
fn the_place_of_one_queue_comes_to_the_other_that_waits() {
    explore(3, || {
        let group = ConcurrencyGroup::new("model", 1);
        let wqs = [member(&group, 4), member(&group, 4)];
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = [wqs[0].pwq(&pools[0]), wqs[1].pwq(&pools[1])];
        let [first, second] = started(&pools);
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        for (pwq, item) in pwqs.iter().zip(&items) {
            queue(pwq, item).unwrap();
        }
        wait_all(&items, &done);
        wqs[0].finish([first]);
        wqs[1].finish([second]);
        check(&group, &items);
    });
}

#[test]
fn a_queue_at_its_own_limit_comes_back_for_the_groups_place() {
    explore(2, || {
        let group = ConcurrencyGroup::new("model", 1);
        let wqs = [member(&group, 1), member(&group, 4)];
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = [
            wqs[0].pwq(&pools[0]),
            wqs[0].pwq(&pools[1]),
            wqs[1].pwq(&pools[1]),
        ];
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<3>(&done);
        // The first item has the only credit of both limits. The other item of its queue waits for
        // either limit.
        for (pwq, item) in pwqs[..2].iter().zip(&items) {
            queue(pwq, item).unwrap();
        }
        let workers = started(&pools);
        queue(&pwqs[2], &items[2]).unwrap();
        wait_all(&items, &done);
        wqs[0].finish(workers);
        wqs[1].finish([]);
        check(&group, &items);
    });
}

#[test]
fn an_item_that_begins_to_wait_while_the_limit_is_raised_becomes_active() {
    explore(3, || {
        let group = ConcurrencyGroup::new("model", 1);
        let wqs = [member(&group, 4), member(&group, 4)];
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = [wqs[0].pwq(&pools[0]), wqs[1].pwq(&pools[1])];
        let done = Arc::new(Parker::new());
        let items = items::<2>(&done);
        // The item has the only credit. No worker runs yet.
        queue(&pwqs[0], &items[0]).unwrap();
        pools[0].lock().drain();
        let second = (pools[1].clone(), vec![start(&pools[1])]);
        queue(&pwqs[1], &items[1]).unwrap();
        group.set_max_active(2).unwrap();
        wait_all(&items[1..], &done);
        assert_eq!(items[0].runs(), 0);
        let first = (pools[0].clone(), vec![start(&pools[0])]);
        wait_all(&items, &done);
        wqs[0].finish([first]);
        wqs[1].finish([second]);
        check(&group, &items);
    });
}

#[test]
fn what_is_kept_unused_is_given_to_who_begins_to_wait() {
    explore(3, || {
        let group = ConcurrencyGroup::new("model", 1);
        let wqs = [member(&group, 4), member(&group, 4)];
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = [wqs[0].pwq(&pools[0]), wqs[1].pwq(&pools[1])];
        let [first, second] = started(&pools);
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        queue(&pwqs[0], &items[0]).unwrap();
        wait_all(&items[..1], &done);
        // The first item has run. Its credit may still be in use, kept for the next item, or on its
        // way back to the store.
        queue(&pwqs[1], &items[1]).unwrap();
        wait_all(&items, &done);
        wqs[0].finish([first]);
        wqs[1].finish([second]);
        check(&group, &items);
    });
}
