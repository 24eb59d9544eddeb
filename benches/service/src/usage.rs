//! What a process has used: CPU time, page faults, threads.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;

#[derive(Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    pub(crate) page_faults: u64,
    pub(crate) threads: u64,
}

impl Usage {
    /// That of this process.
    pub(crate) fn now() -> io::Result<Usage> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let stat = fs::read_to_string("/proc/self/stat")?;
        // A process may have blanks in its name, which is in parentheses.
        let fields = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?.1;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let field = |number: usize| -> io::Result<u64> {
            // The third field of proc(5) is the first after the name.
            let field = fields.get(number - 3).ok_or(io::ErrorKind::InvalidData)?;
            field.parse().map_err(io::Error::other)
        };
        Ok(Usage {
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            page_faults: field(10)?,
            threads: field(20)?,
        })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let words = [self.cpu_ns, self.page_faults, self.threads];
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Usage> {
        let words: Vec<_> = bytes.chunks_exact(8).collect();
        let word = |at: usize| -> io::Result<u64> {
            let word: &[u8] = words.get(at).ok_or(io::ErrorKind::InvalidData)?;
            Ok(u64::from_be_bytes(word.try_into().expect("eight bytes")))
        };
        Ok(Usage {
            cpu_ns: word(0)?,
            page_faults: word(1)?,
            threads: word(2)?,
        })
    }
}
