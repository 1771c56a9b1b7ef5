//! `cargo xtask bench`: what the generator costs and how well it keeps a rate, beside wrk, oha and Goose on the same trivial
//! server.
//!
//! Every contestant runs once a round, and each round begins with another, so that a drift of the machine falls on all.

mod contestants;
mod figures;
mod machine;
mod page;
mod served;
#[cfg(feature = "server")]
pub(crate) mod server;
mod usage;
mod workspace;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use contestants::{Contestant, Load};
use figures::{cpu, flat, grouped, lateness, memory};
use served::Server;

const PAGE: &str = "docs/performance.md";

/// A load at a constant rate has users for what arrives in this part of a second: many more than are needed while the
/// server keeps up.
const OPEN_PART: u32 = 10;

/// Users of the long run.
const LONG_USERS: u32 = 50;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Measure these alone
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Section::ALL)]
    only: Vec<Section>,
    /// Runs of each contestant
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds that each run takes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// CPU: connections, one for each virtual user
    #[arg(long, value_delimiter = ',', default_values_t = [50, 5000], value_parser = clap::value_parser!(u32).range(1..=20_000))]
    users: Vec<u32>,
    /// Memory: the numbers of users that are compared with one
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000], value_parser = clap::value_parser!(u32).range(2..=20_000))]
    memory_users: Vec<u32>,
    /// Memory: runs of each contestant with each number of users
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    memory_runs: u32,
    /// Lateness: requests a second
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rates: Vec<u32>,
    /// Memory over time: seconds of the one long run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(4..=3600))]
    long_seconds: u32,
    /// Put the tables into docs/performance.md, in the place of those that are there
    #[arg(long)]
    write: bool,
    /// Print the figures as JSON on standard output, instead of the tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Cpu,
    Memory,
    Flat,
    Lateness,
}

impl Section {
    const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Flat, Self::Lateness];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Flat => "flat",
            Self::Lateness => "lateness",
        }
    }
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(usage::is_supported(), "CPU time is read from /proc, which this system does not have");
    let most = options.users.iter().chain(&options.memory_users).copied().max().unwrap_or_default();
    machine::allow_descriptors(most)?;
    let contestants = contestants::prepare(root)?;
    let server = Server::start(root)?;
    let mut bench = Bench { contestants, server, options };
    let mut all = serde_json::Map::new();
    for section in Section::ALL.into_iter().filter(|section| options.only.contains(section)) {
        let about = format!("```console\n$ {}\n```\n\n{}\n", command(section, options), machine::described());
        let (tables, figures) = bench.measured(section)?;
        // At once: what is measured stays, whatever becomes of the next section.
        if options.write {
            page::write(&root.join(PAGE), section.name(), &format!("{about}\n{tables}"))?;
        }
        if !options.json {
            println!("{about}\n{tables}");
        }
        all.insert(section.name().to_owned(), figures);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&all).context("could not write the figures")?);
    }
    Ok(())
}

/// The command that measures this section alone in the same way.
fn command(section: Section, options: &Options) -> String {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let Options { runs, seconds, memory_runs, long_seconds, .. } = options;
    let how = match section {
        Section::Cpu => format!("--runs {runs} --seconds {seconds} --users {}", list(&options.users)),
        Section::Memory => {
            let users = list(&options.memory_users);
            format!("--memory-runs {memory_runs} --seconds {seconds} --memory-users {users}")
        }
        Section::Flat => format!("--long-seconds {long_seconds}"),
        Section::Lateness => format!("--runs {runs} --seconds {seconds} --rates {}", list(&options.rates)),
    };
    format!("cargo xtask bench --only {section} {how}")
}

struct Bench<'a> {
    contestants: Vec<Contestant>,
    server: Server,
    options: &'a Options,
}

impl Bench<'_> {
    fn measured(&mut self, section: Section) -> Result<(String, Value)> {
        match section {
            Section::Cpu => self.cpu(),
            Section::Memory => self.memory(),
            Section::Flat => self.flat(),
            Section::Lateness => self.lateness(),
        }
    }

    fn cpu(&mut self) -> Result<(String, Value)> {
        let Options { runs, seconds, .. } = *self.options;
        let mut text = String::new();
        let mut all = Vec::new();
        for users in self.options.users.clone() {
            let load = Load::Closed { users, seconds };
            let samples = self.alternated(runs, |contestant, server| {
                server.begin()?;
                let observed = contestant.run(load, &server.address).context("is a closed load")??;
                let requests = observed.requests;
                let (load, tool) = observed.cpu_since(server.first_arrival()?);
                let sample = cpu::Sample { requests, load, tool };
                eprintln!("{:>6.2} µs a request ({requests} requests)", sample.micros());
                Ok(Some(sample))
            })?;
            let rows = cpu::rows(&samples);
            text += &format!("{} users, {runs} alternated runs of {seconds} s:\n\n", grouped(users));
            text += &(cpu::markdown(&rows) + "\n");
            all.push(json!({ "users": users, "rows": figures_of(&rows)? }));
        }
        Ok((text, Value::Array(all)))
    }

    fn memory(&mut self) -> Result<(String, Value)> {
        let Options { memory_runs: runs, seconds, .. } = *self.options;
        let many = self.options.memory_users.clone();
        let rounds = self.alternated(runs, |contestant, server| {
            let mut sample = |users| {
                server.begin()?;
                let load = Load::Closed { users, seconds };
                let observed = contestant.run(load, &server.address).context("is a closed load")??;
                let both = observed.resident().into_iter().map(|(load, tool)| load + tool);
                let peak = both.max().context("its memory was never seen")?;
                anyhow::Ok(memory::Sample { peak, connections: server.connections()? })
            };
            let one = sample(1)?;
            let many = many.iter().map(|&users| sample(users)).collect::<Result<Vec<_>>>()?;
            eprintln!("{one:?} {many:?}");
            Ok(Some((one, many)))
        })?;
        let rows = memory::rows(&many, &rounds);
        let text = format!("{runs} alternated runs of {seconds} s:\n\n{}\n", memory::markdown(&rows));
        Ok((text, figures_of(&rows)?))
    }

    fn flat(&mut self) -> Result<(String, Value)> {
        let seconds = self.options.long_seconds;
        let load = Load::Closed { users: LONG_USERS, seconds };
        let rows = self.alternated(1, |contestant, server| {
            server.begin()?;
            let observed = contestant.run(load, &server.address).context("is a closed load")??;
            let row = flat::Row::new(contestant.name, observed.requests, &observed.resident());
            eprintln!("{row:?}");
            Ok(Some(row))
        })?;
        let rows: Vec<flat::Row> = rows.into_iter().flat_map(|(_, rows)| rows).collect();
        let text = format!("{LONG_USERS} users, one run of {seconds} s:\n\n{}\n", flat::markdown(&rows));
        Ok((text, figures_of(&rows)?))
    }

    fn lateness(&mut self) -> Result<(String, Value)> {
        let Options { runs, seconds, .. } = *self.options;
        let mut text = String::new();
        let mut all = Vec::new();
        for rate in self.options.rates.clone() {
            let load = Load::Open { rate, users: rate.div_ceil(OPEN_PART), seconds };
            let samples = self.alternated(runs, |contestant, server| {
                server.record()?;
                let Some(observed) = contestant.run(load, &server.address).transpose()? else {
                    eprintln!("has no open model");
                    return Ok(None);
                };
                let sample = lateness::Sample::new(&server.arrivals()?, rate.into(), observed.lag_ms)
                    .context("too few requests arrived after the first second to tell how they keep a rate: ask for more seconds")?;
                eprintln!("{sample:?}");
                Ok(Some(sample))
            })?;
            let rows = lateness::rows(&samples);
            text +=
                &format!("{} requests a second, {runs} alternated runs of {seconds} s:\n\n", grouped(rate));
            text += &(lateness::markdown(&rows) + "\n");
            all.push(json!({ "rate": rate, "rows": figures_of(&rows)? }));
        }
        Ok((text, Value::Array(all)))
    }

    /// Runs `one` with each contestant in each of so many rounds, and gives what each of them made of it.
    fn alternated<S>(
        &mut self,
        runs: u32,
        mut one: impl FnMut(&Contestant, &mut Server) -> Result<Option<S>>,
    ) -> Result<Vec<(&'static str, Vec<S>)>> {
        let mut samples: Vec<_> = self.contestants.iter().map(|one| (one.name, Vec::new())).collect();
        for round in 0..runs as usize {
            for at in 0..self.contestants.len() {
                let at = (at + round) % self.contestants.len();
                let contestant = &self.contestants[at];
                eprint!("round {:>2}  {:<22} ", round + 1, contestant.name);
                let sample = one(contestant, &mut self.server)
                    .with_context(|| format!("could not measure {}", contestant.name))?;
                samples[at].1.extend(sample);
            }
        }
        Ok(samples)
    }
}

fn figures_of(rows: &impl Serialize) -> Result<Value> {
    serde_json::to_value(rows).context("could not write the figures")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Options, Section, command};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_command_of_a_section_measures_it_alone_in_the_same_way() {
        let line = "bench --runs 2 --seconds 1 --users 7,9 --memory-users 5 --memory-runs 8 --rates 3 --long-seconds 4 --write";
        let given = Line::parse_from(line.split(' ')).options;
        assert_eq!(given.only, Section::ALL);
        let shown = command(Section::Cpu, &given);
        assert_eq!(shown, "cargo xtask bench --only cpu --runs 2 --seconds 1 --users 7,9");
        for section in Section::ALL {
            let again = command(section, &given);
            let words = again.strip_prefix("cargo xtask ").unwrap().split(' ');
            let read = Line::try_parse_from(words).unwrap().options;
            assert_eq!(read.only, [section]);
            assert_eq!(command(section, &read), again);
        }
    }
}
