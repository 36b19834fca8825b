//! Invariants of every commit: the job is in a safe state.

use std::collections::BTreeSet;

use super::program::{Op, Program};
use super::World;

impl World {
    pub(super) fn check_cut(&mut self, program: &Program) {
        if let Err(what) = self.cut_is_safe(program) {
            self.breaks(what);
        }
    }

    fn cut_is_safe(&self, program: &Program) -> Result<(), String> {
        let check = |holds: bool, what: &dyn Fn() -> String| match holds {
            true => Ok(()),
            false => Err(what()),
        };
        for (r, p) in self.processes.iter().enumerate() {
            // A rank that has saved may be lost before the commit.
            check(p.stopped || p.dead, &|| {
                format!("rank {r} ran while the set was committed")
            })?;
            check(!self.is_in_library(p), &|| {
                format!("rank {r} was cut inside a call")
            })?;
            let sending = match self.variant.synchronous {
                true => 0,
                false => p.sending.len(),
            };
            let left = p.arrived.len() + p.matched.len() + sending;
            check(left == 0, &|| {
                format!("{left} messages of rank {r} are left below")
            })?;
            for (s, q) in self.processes.iter().enumerate() {
                let (sent, received) = (q.sent[r], p.received[s]);
                check(sent == received, &|| {
                    format!("of {sent} messages {s} -> {r}, {received} arrived before the cut")
                })?;
            }
        }
        check(self.flying.is_empty(), &|| "messages under way".into())?;
        for (comm, info) in program.comms.iter().enumerate() {
            let started = |m: &u32| {
                let p = &self.processes[*m as usize];
                let retracted = self.retracted(program, *m).is_some_and(|(c, _)| c == comm);
                Some(p.started.get(&comm)? - u64::from(retracted))
            };
            let counts: BTreeSet<u64> = info
                .members
                .iter()
                .map(|m| started(m).unwrap_or(0))
                .collect();
            check(counts.len() <= 1, &|| {
                format!("cut inside a collective of {comm}: begun {counts:?} times")
            })?;
        }
        for (key, entered) in &self.entered {
            // The operation is made again, by all its members.
            let retracted = |m: &u32| self.retracted(program, *m) == Some(*key);
            let after_the_cut = entered.iter().all(retracted);
            check(after_the_cut || self.full(program, *key), &|| {
                format!("collective {key:?} half begun")
            })?;
        }
        Ok(())
    }

    /// The communicator and the number of the operation that a rank makes again after a restart.
    fn retracted(&self, program: &Program, r: u32) -> Option<(usize, u64)> {
        let p = &self.processes[r as usize];
        let number = p.retracts()?;
        match program.ops[r as usize].get(p.pc)? {
            Op::Collective { comm, .. } | Op::Create { parent: comm, .. } => Some((*comm, number)),
            _ => None,
        }
    }
}
