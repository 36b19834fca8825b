//! The programs of a torture: the generator of random programs, and the examples that loop until they are released, or
//! run long enough for cuts anywhere.

use crate::harness::mpi::Mpi;
use crate::harness::paths;
use crate::harness::random::Random;
use crate::test::programs::mpi::folders;
use crate::test::support::directives::{collect, Cut, Example, Mode};
use anyhow::{ensure, Context, Result};

/// Name of the generator.
const GENERATOR: &str = "torture/random";
/// Number of runs of the generator among four runs.
const GENERATED_OF_FOUR: u64 = 3;
/// Global steps of a generated program, which take several seconds.
const STEPS: u64 = 1000;
/// The same of a program that is recorded, which take about a second.
const RECORDED_STEPS: u64 = 250;

/// A program, and the MPI library of its build.
pub struct Program {
    /// Program with its argument.
    pub example: Example,
    /// MPI library whose ABI it has.
    pub front: Mpi,
    /// Threads that the generator starts in each rank.
    pub threads: u64,
}

impl Program {
    /// Name in the output.
    pub fn name(&self) -> String {
        format!(
            "{}, {} ranks, {}",
            self.example.name, self.example.ranks, self.front
        )
    }

    /// Short name, for a case.
    pub fn label(&self) -> String {
        let name = &self.example.name;
        let name = name.strip_prefix("torture/").unwrap_or(name);
        format!("{}:{}", name.replace('/', "-"), self.front)
    }
}

/// All programs of a torture.
pub struct Programs {
    generator: Option<Example>,
    examples: Vec<Example>,
}

impl Programs {
    /// Programs whose name contains one of `filters`, or all without filters.
    pub fn collect(filters: &[String]) -> Result<Programs> {
        let wanted = |example: &Example| {
            filters.is_empty() || filters.iter().any(|f| example.name.contains(f.as_str()))
        };
        // Restarts are under either library.
        let endless = |example: &Example| {
            matches!(example.cut, Cut::Loop | Cut::Timed(..) | Cut::After(..))
                && [Mode::Restart, Mode::Migrate]
                    .iter()
                    .all(|mode| example.modes.contains(mode))
                && example.pending.is_none()
        };
        let examples = collect(&paths::examples(), &folders()?)?
            .into_iter()
            .filter(|example| endless(example) && wanted(example))
            .collect();
        let generator = collect(&paths::examples(), &["torture".to_owned()])?
            .into_iter()
            .find(|example| example.name == GENERATOR && wanted(example));
        Ok(Programs {
            generator,
            examples,
        })
    }

    /// Names of the programs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.generator.iter().chain(&self.examples);
        all.map(|example| example.name.as_str())
    }

    /// A random program.
    pub fn draw(&self, random: &mut Random) -> Result<Program> {
        ensure!(
            self.names().next().is_some(),
            "no program has a name like that; see --list"
        );
        let generate = random.below(4) < GENERATED_OF_FOUR || self.examples.is_empty();
        if let (true, Some(generator)) = (generate, &self.generator) {
            let ranks = 2 + random.below(3) as usize;
            let threads = random.below(8).saturating_sub(5);
            let seed = random.below(1_000_000);
            let front = Mpi::ALL[random.below(2) as usize];
            return Ok(generated(generator, seed, (ranks, threads, STEPS), front));
        }
        let example = &self.examples[random.below(self.examples.len() as u64) as usize];
        let fronts = &example.fronts;
        let front = fronts[random.below(fronts.len() as u64) as usize];
        Ok(Program {
            example: example.clone(),
            front,
            threads: 0,
        })
    }

    /// A random program that is recorded. It has up to two threads more in each rank, whose calls have an order in the
    /// record.
    pub fn draw_to_record(&self, random: &mut Random) -> Result<Program> {
        let ranks = 2 + random.below(3) as usize;
        let threads = random.below(3);
        let seed = random.below(1_000_000);
        let front = Mpi::ALL[random.below(2) as usize];
        let generator = self.generator()?;
        Ok(generated(
            generator,
            seed,
            (ranks, threads, RECORDED_STEPS),
            front,
        ))
    }

    /// Programs of `cargo xtask test` that are recorded.
    pub fn to_record(&self) -> Result<Vec<Program>> {
        let generator = self.generator()?;
        let program = |seed, ranks, threads, front| {
            generated(generator, seed, (ranks, threads, RECORDED_STEPS), front)
        };
        Ok(vec![
            program(31_415, 2, 0, Mpi::OpenMpi),
            program(27_182, 2, 0, Mpi::Mpich),
            // Their replays failed, or stood still, while the receives of all threads had one order.
            program(584_049, 3, 2, Mpi::Mpich),
            program(20_349, 2, 2, Mpi::OpenMpi),
        ])
    }

    fn generator(&self) -> Result<&Example> {
        let generator = self.generator.as_ref();
        generator.context("the generator is not there")
    }

    /// Programs of `cargo xtask test` that are killed under `stasis run`.
    pub fn to_recover(&self) -> Result<Vec<Program>> {
        let generator = self.generator()?;
        Ok(vec![
            generated(generator, 4_242, (2, 0, STEPS), Mpi::OpenMpi),
            generated(generator, 777, (2, 0, STEPS), Mpi::Mpich),
        ])
    }

    /// Programs of `cargo xtask test`.
    pub fn for_the_short_form(&self) -> Result<Vec<Program>> {
        let looping = |name: &str, front| {
            let found = self.examples.iter().find(|example| example.name == name);
            let example = found.with_context(|| format!("there is no example {name}"))?;
            Ok::<_, anyhow::Error>(Program {
                example: example.clone(),
                front,
                threads: 0,
            })
        };
        let generator = self.generator()?;
        Ok(vec![
            generated(generator, 110_228, (2, 0, STEPS), Mpi::Mpich),
            generated(generator, 66_006, (2, 0, STEPS), Mpi::OpenMpi),
            generated(generator, 840_887, (3, 0, STEPS), Mpi::Mpich),
            looping("p2p/ring_loop", Mpi::Mpich)?,
            looping("coll/nonblocking_loop", Mpi::OpenMpi)?,
            looping("files/overwritten", Mpi::Mpich)?,
        ])
    }
}

/// The generator with its arguments.
fn generated(
    generator: &Example,
    seed: u64,
    (ranks, threads, steps): (usize, u64, u64),
    front: Mpi,
) -> Program {
    let mut example = generator.clone();
    let argument = format!("{seed}-{steps}-{threads}");
    example.name = format!("{GENERATOR}.{argument}");
    example.variant = Some(argument);
    example.ranks = ranks;
    Program {
        example,
        front,
        threads,
    }
}
