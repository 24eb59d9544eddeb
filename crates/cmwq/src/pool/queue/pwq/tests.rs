//! Which credits a pool workqueue takes, uses and gives back.

use crate::item::OpenChunk;
use crate::item::closure::Small;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::pool::PwqState;
use crate::pool::stubs::raw_items;
use crate::pool::tests::{claim, only_pwq, queue};
use std::sync::{Arc, Mutex};

#[test]
fn a_caller_slot_gets_no_place_that_others_wait_for() {
    let (_engine, _wq, pool) = queue(1, 8);
    let mut guard = pool.lock();
    let index = only_pwq(&guard);
    let pwq = guard.pwqs.get_mut(index).expect("it is there");
    let limit = pwq.limit.clone();
    let is_granted = |pwq: &mut PwqState| {
        let granted = pwq.take_credit_for_caller_slot();
        if granted {
            pwq.return_credit();
        }
        granted
    };
    assert!(
        is_granted(pwq),
        "a credit is at hand, and no other needs it"
    );
    limit.one_more_waits();
    assert!(!is_granted(pwq), "another pool workqueue waits for one");
    limit.one_less_waits();
    limit.give(-100);
    assert!(!is_granted(pwq), "the limit was lowered, and is overdrawn");
    limit.give(100);
    assert!(is_granted(pwq));
}

#[test]
fn a_pool_workqueue_in_the_line_goes_on_by_itself_for_some_items_and_then_gives_one_credit_back() {
    let works = raw_items::<32>();
    // Portions of four.
    let (_engine, _wq, pool) = queue(1, 16);
    let mut guard = pool.lock();
    let (number, index) = (pool.id, only_pwq(&guard));
    let pwq = guard.pwqs.get_mut(index).expect("it is there");
    let limit = pwq.limit.clone();
    assert!(pwq.use_credit(), "all are free");
    pwq.credits.transition_used_to_unused(1);
    for item in &works {
        pwq.inactive.push_back(claim(item, number, index));
    }
    assert!(pwq.begin_waiting());
    let goes_on = |pwq: &mut PwqState| {
        let next = pwq.next_of_own();
        if let Some(item) = next {
            item.release();
            pwq.credits.transition_used_to_unused(1);
            return true;
        }
        false
    };
    assert!((0..8).all(|_| goes_on(pwq)), "no other waits");
    limit.one_more_waits();
    let turns: Vec<bool> = (0..9).map(|_| goes_on(pwq)).collect();
    let (on, back) = (true, false);
    assert_eq!(turns, [back, on, on, on, back, on, on, on, back]);
    limit.give(-100);
    assert!(!goes_on(pwq), "the limit was lowered, and is overdrawn");
    limit.give(100);
    limit.one_less_waits();
    while pwq.inactive.len() > 1 {
        assert!(goes_on(pwq), "no other waits");
    }
    assert!(!goes_on(pwq), "the last one ends the turn in the line");
    pwq.inactive.pop_front().expect("the last one").release();
    pwq.waiting = false;
    limit.one_less_waits();
    pwq.give_back_unused();
}

#[test]
fn closures_that_wait_for_a_credit_stay_in_their_chunk_and_keep_their_place() {
    let [active, between] = raw_items();
    // On a pool of one CPU there are no chunks.
    let (_engine, wq, pool) = queue(2, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |nth: usize| {
        let order = order.clone();
        let small = Small::of(move || order.lock().expect("nobody panics").push(nth));
        small.unwrap_or_else(|_| unreachable!("two words"))
    };
    {
        let mut guard = pool.lock();
        let index = only_pwq(&guard);
        let chunks = guard.pwqs[index].chunks.clone().expect("it has chunks");
        let chunks = &chunks.closures;
        let publish = |nth: std::ops::Range<usize>| {
            let open = OpenChunk::none();
            let _ = pool
                .inbox
                .push_in_chunk(&note(nth.start), chunks, &open, usize::MAX);
            for nth in nth.skip(1) {
                assert!(open.add_closure(chunks.serial(), &note(nth)));
            }
            open.leave();
        };
        // How many wait, and how many of them as items.
        let wait = |guard: &mut PoolGuard<'_>| {
            guard.drain();
            let inactive = &mut guard.pwqs[index].inactive;
            assert_eq!(inactive.funcs().count(), inactive.len());
            assert!(inactive.head().is_some());
            (inactive.len(), inactive.single())
        };
        guard.accept_item(claim(&active, pool.id, index));
        publish(0..3);
        assert_eq!(wait(&mut guard), (3, 0));
        publish(3..5);
        assert_eq!(wait(&mut guard), (5, 0));
        // An item may be cancelled, so it is on the list; those before it stay where they are.
        guard.accept_item(claim(&between, pool.id, index));
        assert_eq!(wait(&mut guard), (6, 1));
        publish(5..8);
        assert_eq!(wait(&mut guard), (9, 1));
        assert_eq!(guard.pwqs[index].nr_in_flight(), 10);
        let taken = guard.take_out(pool.id, &between);
        taken.expect("it waits").0.release();
        assert_eq!(wait(&mut guard), (8, 0));
    }
    wq.flush().expect("not from an item");
    assert_eq!(
        *order.lock().expect("nobody panics"),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(wq.counts(), (9, 9));
}
