//! Running slots that pools hand each other: an item queued on a pool without a slot is run all the
//! same, whatever the holder does meanwhile.

use super::*;

/// Pools of one CPU each below a limit, with one worker each.
struct Limited {
    params: Arc<Params>,
    pools: [(Arc<Pool>, PwqKey); 2],
    workers: [thread::JoinHandle<()>; 2],
    done: Arc<Parker>,
}

impl Limited {
    fn to(limit: u32) -> Limited {
        let params = Arc::new(Params::default());
        params.slots.set_limit(Some(limit));
        let pools = [1, 2].map(|id| {
            let pool = Made {
                params: params.clone(),
                ..made(1)
            }
            .pool(id);
            let pwq = add_pwq(&pool, None);
            (pool, pwq)
        });
        Limited {
            params,
            workers: [start(&pools[0].0), start(&pools[1].0)],
            pools,
            done: Arc::new(Parker::new()),
        }
    }

    fn item(&self) -> Arc<Item> {
        Item::new(&Touched::new(), Some(&self.done))
    }

    /// Queues an item on the second pool, on a thread of its own.
    fn queue_beside(&self) -> (Arc<Item>, thread::JoinHandle<()>) {
        let item = self.item();
        let ((pool, pwq), queued) = (self.pools[1].clone(), item.clone());
        let issuer = thread::spawn(move || assert!(queue(&pool, pwq, &queued)));
        (item, issuer)
    }

    /// Waits for the items, ends the workers, and checks that no slot is lost.
    fn finish(self, items: &[Arc<Item>]) {
        wait_all(items, &self.done);
        for ((pool, _), worker) in self.pools.iter().zip(self.workers) {
            finish(pool, [worker]);
        }
        assert_eq!(self.params.slots.usage(), (0, 0), "held, and in line");
    }
}

#[test]
fn who_has_no_slot_gets_that_of_a_pool_with_nothing_left_to_do() {
    explore(2, || {
        let limited = Limited::to(1);
        let (beside, issuer) = limited.queue_beside();
        let own = limited.item();
        assert!(queue(&limited.pools[0].0, limited.pools[0].1, &own));
        issuer.join().unwrap();
        limited.finish(&[own, beside]);
    });
}

#[test]
fn who_has_no_slot_gets_that_of_a_pool_whose_turn_is_over() {
    explore(2, || {
        let limited = Limited::to(1);
        let own = [limited.item(), limited.item()];
        assert!(queue(&limited.pools[0].0, limited.pools[0].1, &own[0]));
        let (beside, issuer) = limited.queue_beside();
        assert!(queue(&limited.pools[0].0, limited.pools[0].1, &own[1]));
        issuer.join().unwrap();
        let [first, second] = own;
        limited.finish(&[first, second, beside]);
    });
}

#[test]
fn who_has_no_slot_gets_on_when_the_limit_is_lifted_and_comes_back() {
    explore(2, || {
        let limited = Limited::to(1);
        let own = limited.item();
        assert!(queue(&limited.pools[0].0, limited.pools[0].1, &own));
        let (beside, issuer) = limited.queue_beside();
        for limit in [None, Some(1)] {
            limited.params.slots.set_limit(limit);
            for (pool, _) in &limited.pools {
                pool.follow_limit();
            }
            limited.params.slots.hand_out(0);
        }
        issuer.join().unwrap();
        limited.finish(&[own, beside]);
    });
}
