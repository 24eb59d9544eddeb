//! The last-CPU hint of a sleeper: on which CPU it parked, by the address of the word that it sleeps on.
//!
//! Waking a thread on another CPU costs both CPUs an interrupt, and on a virtual machine its host's help; on the waker's own CPU it costs neither. By
//! this hint a worker knows which worker should do a wake-up.
//!
//! All of it is a hint: sleepers whose words share an entry overwrite each other's, and no sleeper takes its entry back.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;

const ENTRIES: usize = 1024;
const BITS: u32 = ENTRIES.ilog2();

/// CPU numbers plus one; 0: none.
static CPUS: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

fn entry(word: usize) -> &'static AtomicU32 {
    let mixed = (word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &CPUS[(mixed >> (u64::BITS - BITS)) as usize]
}

/// The calling thread is about to park on `word`, on `cpu`.
pub(crate) fn note(word: usize, cpu: usize) {
    let (entry, cpu) = (entry(word), cpu as u32 + 1);
    // Nearly always it is there already: issuers wait again and again.
    if entry.load(Ordering::Relaxed) != cpu {
        entry.store(cpu, Ordering::Relaxed);
    }
}

/// The CPU on which a thread sleeps on `word`, if it has noted one.
pub(in crate::pool) fn of(word: usize) -> Option<usize> {
    (entry(word).load(Ordering::Relaxed) as usize).checked_sub(1)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    #[test]
    fn the_last_sleeper_of_a_word_counts() {
        // Any addresses: nothing is read there. Other tests of this process hardly ever use the same entry.
        let word = 0x7e57_0000_0004;
        super::note(word, 0);
        assert_eq!(super::of(word), Some(0));
        super::note(word, 71);
        super::note(word, 71);
        assert_eq!(super::of(word), Some(71));
    }
}
