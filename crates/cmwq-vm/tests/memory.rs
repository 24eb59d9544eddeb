//! How much memory a machine's program uses.

use cmwq_vm::machine::preset;
use cmwq_vm::os;
use std::hint::black_box;

#[global_allocator]
static ARENA: cmwq_vm::Arena = cmwq_vm::Arena;

#[test]
fn what_is_allocated_and_not_freed_is_counted() {
    let machine = preset("16-vcpus").unwrap().machine();
    let main = || {
        let before = os::totals().memory;
        let kept = black_box(vec![7_u8; 4096]);
        assert_eq!(os::totals().memory - before, 4096);
        drop(black_box(vec![7_u8; 1 << 16]));
        assert_eq!(os::totals().memory - before, 4096);
        drop(kept);
        assert_eq!(os::totals().memory, before);
    };
    cmwq_vm::run(&machine, 1, 1_000_000_000, main).expect("it ends");
    // The next one counts anew.
    let main = || assert!(os::totals().memory < 1 << 20);
    cmwq_vm::run(&machine, 1, 1_000_000_000, main).expect("it ends");
}
