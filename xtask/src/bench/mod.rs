//! `cargo xtask bench`: the CPU that the generator takes for a request, beside wrk and oha on the same trivial server.
//!
//! Every contestant runs once a round, and each round begins with another, so that a drift of the machine falls on all.

mod contestants;
mod figures;
#[cfg(feature = "server")]
pub(crate) mod server;
mod usage;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::process;
use contestants::Contestant;
use figures::Sample;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Runs of each contestant
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds that each run takes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Connections, one for each virtual user
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    users: u32,
    /// Print the figures as JSON on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(usage::is_supported(), "CPU time is read from /proc, which this system does not have");
    let contestants = contestants::prepare(root, options.users, options.seconds)?;
    let server = Server::start(root)?;
    let mut samples: Vec<Vec<Sample>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..options.runs as usize {
        for at in 0..contestants.len() {
            let at = (at + round) % contestants.len();
            let sample = contestants[at].run(&server.address)?;
            eprintln!("round {:>2}  {:<28} {sample}", round + 1, contestants[at].name);
            samples[at].push(sample);
        }
    }
    let names = contestants.iter().map(|contestant: &Contestant| contestant.name);
    let results: Vec<_> =
        names.zip(samples).map(|(name, samples)| figures::Result::new(name, &samples)).collect();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&results).context("could not write the figures")?);
    } else {
        let Options { runs, seconds, users, .. } = options;
        println!(
            "\n{users} users, {runs} alternated runs of {seconds} s each; median (least to most) of CPU µs a request\n"
        );
        print!("{}", figures::table(&results));
    }
    Ok(())
}

/// The trivial server, a process of its own. It ends when its standard input closes, so also if this process is killed.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(root: &Path) -> Result<Self> {
        let arguments = ["--release", "--package", "xtask", "--bin", "xtask", "--features", "server"];
        let program = process::build(root, "xtask", &arguments)?;
        let mut command = process::program(program, root);
        let mut process = command
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the server")?;
        let output = process.stdout.take().context("the server has no standard output")?;
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).context("the server did not say where it listens")?;
        let address = address.trim().to_owned();
        ensure!(!address.is_empty(), "the server ended before it listened");
        Ok(Self { process, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It may have ended already; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
