//! The attribute `indexes=` of a synthetic description: the numbers of the objects of a level, in
//! hwloc's three forms.

use super::text::{Kind, parse_number, refuse};
use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::error::{TopologyError, shown};

/// The value of an `indexes=` attribute.
#[derive(Debug)]
pub(crate) struct Indexes {
    text: String,
}

/// One digit of an object's number: `position / step % count`, for the object at `position`.
struct Loop {
    step: usize,
    count: usize,
}

impl Indexes {
    pub(crate) fn new(text: &str) -> Self {
        Indexes { text: text.into() }
    }

    /// The numbers of `total` objects, in the order of the objects. `above` is each level that
    /// these objects are in, and how many objects the machine has of it.
    pub(crate) fn numbers(
        &self,
        total: usize,
        above: &[(Kind, usize)],
    ) -> Result<Vec<usize>, TopologyError> {
        let numbers = if self.text.contains('*') {
            self.by_loops(total, self.steps()?)?
        } else if self.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.by_loops(total, self.levels(total, above)?)?
        } else {
            self.list(total)?
        };
        let mut seen = CpuSet::new();
        for &number in &numbers {
            let new = seen
                .try_insert(number)
                .map_err(|error| self.refuse(&error.to_string()))?;
            if !new {
                return Err(self.refuse(&format!("it gives the number {number} twice")));
            }
        }
        Ok(numbers)
    }

    fn list(&self, total: usize) -> Result<Vec<usize>, TopologyError> {
        let numbers = self.text.split(',').map(|number| self.number(number));
        let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
        if numbers.len() == total {
            Ok(numbers)
        } else {
            let given = numbers.len();
            Err(self.refuse(&format!(
                "it numbers {given} objects, and there are {total}"
            )))
        }
    }

    /// `STEP*COUNT` loops: successive numbers go to objects that are STEP apart, COUNT of them, and
    /// then the next loop goes on.
    fn steps(&self) -> Result<Vec<Loop>, TopologyError> {
        let of = |item: &str| {
            let (step, count) = item
                .split_once('*')
                .ok_or_else(|| self.refuse(&format!("{} is not STEP*COUNT", shown(item))))?;
            let (step, count) = (self.number(step)?, self.number(count)?);
            if step == 0 || count == 0 {
                return Err(self.refuse(&format!("{} has a 0", shown(item))));
            }
            Ok(Loop { step, count })
        };
        self.text.split(':').map(of).collect()
    }

    /// Levels: successive numbers go to objects in different objects of the first level, as many as
    /// there are in one object of the nearest level above it that is named, and then the next level
    /// goes on.
    fn levels(&self, total: usize, above: &[(Kind, usize)]) -> Result<Vec<Loop>, TopologyError> {
        let position = |name: &str| {
            let kind = Kind::parse(name);
            let at = above.iter().position(|&(level, _)| Some(level) == kind);
            at.ok_or_else(|| {
                self.refuse(&format!(
                    "{} is no level that these objects are in",
                    shown(name)
                ))
            })
        };
        let named: Vec<usize> = self
            .text
            .split(':')
            .map(position)
            .collect::<Result<_, _>>()?;
        let of = |(turn, &at): (usize, &usize)| {
            let objects = above[at].1;
            if named[..turn].contains(&at) {
                return Err(self.refuse("it names a level twice"));
            }
            if !total.is_multiple_of(objects) {
                return Err(self.refuse(&format!("{total} cannot be divided by {objects}")));
            }
            let outer = named.iter().filter(|&&other| other < at).max();
            Ok(Loop {
                step: total / objects,
                count: objects / outer.map_or(1, |&outer| above[outer].1),
            })
        };
        named.iter().enumerate().map(of).collect()
    }

    /// The first loop is the lowest digit. Objects that are left after all loops are numbered in their order.
    fn by_loops(&self, total: usize, mut loops: Vec<Loop>) -> Result<Vec<usize>, TopologyError> {
        let mut numbered = 1_usize;
        for Loop { count, .. } in &loops {
            numbered = numbered.saturating_mul(*count);
            if numbered > total {
                let reason = format!("it numbers more objects than the {total} there are");
                return Err(self.refuse(&reason));
            }
        }
        if !total.is_multiple_of(numbered) {
            let reason = format!(
                "it numbers {numbered} objects, which does not divide the {total} there are"
            );
            return Err(self.refuse(&reason));
        }
        loops.push(Loop {
            step: 1,
            count: total / numbered,
        });
        let number = |position: usize| {
            let mut weight = 1;
            loops.iter().fold(0, |number, &Loop { step, count }| {
                let digit = position / step % count * weight;
                weight *= count;
                number + digit
            })
        };
        Ok((0..total).map(number).collect())
    }

    fn number(&self, text: &str) -> Result<usize, TopologyError> {
        parse_number(text)
            .filter(|&number| number < MAX_CPUS)
            .ok_or_else(|| {
                self.refuse(&format!(
                    "{} is not a number from 0 to {}",
                    shown(text),
                    MAX_CPUS - 1
                ))
            })
    }

    fn refuse(&self, reason: &str) -> TopologyError {
        refuse(
            &format!("indexes={}", self.text),
            format!(
                "{reason}; write every number, as in 0,2,1,3, or loops, as in 2*2:1*2, or levels, as in numa:core"
            ),
        )
    }
}
