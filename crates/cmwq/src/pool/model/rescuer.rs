//! A rescuer and a late worker on one worklist.

use super::*;
use crate::pool::service::rescuer::Rescuer;
use crate::topology::CpuSet;

#[test]
fn a_rescuer_and_a_late_worker_take_each_item_once_and_the_pool_goes_on() {
    explore(3, || {
        let pool = pool(1, 1);
        let rescuer = Rescuer::new(CpuSet::new());
        let pwq = add_pwq(&pool, Some(rescuer.clone()));
        let done = Arc::new(Parker::new());
        let items = items::<2>(&done);
        for item in &items {
            // The first item's issuer asks for a worker, in vain so far.
            assert!(queue(&pool, pwq, item));
        }
        let rescue = thread::spawn({
            let rescuer = rescuer.clone();
            move || rescuer.run()
        });
        assert!(pool.mayday(), "no worker has come");
        let worker = start(&pool);
        // Either may run them.
        wait_all(&items, &done);
        // From now on without the rescuer.
        rescuer.stop();
        rescue.join().unwrap();
        let last = Item::new(&Touched::new(), Some(&done));
        assert!(queue(&pool, pwq, &last));
        wait(&last, 1, &done);
        finish(&pool, [worker]);
        assert_eq!(pool.lock().in_flight(pwq), 0);
        assert!(items.iter().all(|item| item.runs() == 1));
        assert_eq!(last.runs(), 1);
    });
}

#[test]
fn a_pool_without_any_worker_is_served_by_the_rescuer() {
    explore(3, || {
        let pool = pool(1, 1);
        let rescuer = Rescuer::new(CpuSet::new());
        let pwq = add_pwq(&pool, Some(rescuer.clone()));
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        assert!(queue(&pool, pwq, &items[0]));
        let rescue = thread::spawn({
            let rescuer = rescuer.clone();
            move || rescuer.run()
        });
        assert!(pool.mayday());
        // Comes while the rescuer is on its way, or there, or has left: then the next call finds it.
        assert!(queue(&pool, pwq, &items[1]));
        assert!(pool.mayday());
        wait_all(&items, &done);
        rescuer.stop();
        rescue.join().unwrap();
        finish(&pool, []);
        assert_eq!(pool.lock().in_flight(pwq), 0);
        assert!(items.iter().all(|item| item.runs() == 1));
    });
}
