//! `kill -9` of whichever process, in each phase: nothing is left running, nothing half-written, and what was measured
//! is kept.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::running::{self, PATIENCE, Process, Running, files, start};
use crate::server::Server;
use crate::tool::{Ended, call, run};

/// Runs for each victim, spread over the phases.
const RUNS: u32 = 20;
/// Within this, everything is gone: once the tool is, or the tool was killed.
const GONE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The scenario process is asked which scenarios it has.
    Listing,
    /// Services are started; one takes a while to be ready.
    Services,
    /// The scenario process starts and says hello.
    Hello,
    Reference,
    Load,
    /// The load is over.
    End,
}

impl Phase {
    /// Waits until the tool is in it.
    fn reached(self, tool: &Running) {
        match self {
            Self::Listing => tool.wait_for("robust: process started", 1),
            Self::Services => tool.wait_for("Starting 2 services", 1),
            Self::Hello => tool.wait_for("robust: process started", 2),
            Self::Reference => tool.wait_for("Reference 10 iterations", 1),
            Self::Load => tool.wait_for("Running steady", 1),
            Self::End => tool.wait_for("robust: tearing down", 1),
        }
    }

    /// About how long it lasts, at least.
    fn lasts(self) -> Duration {
        Duration::from_millis(match self {
            Self::Listing | Self::Hello => 80,
            Self::Services | Self::Reference => 150,
            Self::Load => 1200,
            Self::End => 120,
        })
    }
}

/// One run: its server, the tool's words, and how long everything took to be gone.
struct Killed {
    phase: Phase,
    server: Server,
    ended: Ended,
    /// From the kill to the end of the tool.
    tool_ended: Duration,
    gone: Duration,
}

/// Kills what `victim` finds, in one of `phases`, at a moment that differs from run to run.
fn kill(phases: &[Phase], n: u32, victim: impl FnOnce(&Running) -> u32) -> Killed {
    let phase = phases[n as usize % phases.len()];
    let rounds = RUNS.div_ceil(phases.len() as u32);
    let server = Server::start();
    let mut tool = start(run(&["steady", "--profile", "family"]).against(&server.url()));
    phase.reached(&tool);
    thread::sleep(phase.lasts() * (n / phases.len() as u32) / rounds);
    let pid = victim(&tool);
    let begin = Instant::now();
    running::signal(pid, Signal::KILL);
    tool.wait(PATIENCE);
    let tool_ended = begin.elapsed();
    let gone = tool.all_gone(GONE);
    Killed { phase, server, ended: tool.into_ended(), tool_ended, gone }
}

/// Every file stands under its final name only when it is whole.
fn whole(folder: &Path) {
    for (path, bytes) in files(folder) {
        let (path, text) = (path.to_string_lossy(), String::from_utf8_lossy(&bytes));
        match path.as_ref() {
            "summary.json" => drop(serde_json::from_slice::<Value>(&bytes).unwrap()),
            "spans.otlp.jsonl" | "usage.jsonl" => {
                text.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
                assert!(text.is_empty() || text.ends_with('\n'));
            }
            "histograms.hlog" => assert!(text.starts_with('#') && text.ends_with('\n')),
            // The one that grows: each of its lines stands for itself.
            "journal" => assert!(text.contains("loadtest.journal/1"), "{text}"),
            other => assert!(
                other.starts_with(".writing-")
                    || ["bin/", "data/", "services/"].iter().any(|folder| other.starts_with(folder)),
                "{other}"
            ),
        }
    }
}

/// The summary that is made of the journal.
fn recovered(folder: &Path) -> Value {
    let id = folder.file_name().unwrap().to_string_lossy();
    let report = call(&["report", "--recover", "--message-format", "json", &id]).finish();
    assert_eq!(report.code(), 0, "{}", report.stderr);
    serde_json::from_str(&report.stdout).unwrap()
}

fn requests(summary: &Value) -> u64 {
    summary["totals"]["requests"].as_u64().unwrap()
}

/// A victim that is not the tool: the tool says who died, and keeps the results.
fn told(killed: &Killed, words: &str) {
    let Killed { phase, server, ended, tool_ended, gone } = killed;
    println!("{phase:?}: the tool ended after {tool_ended:?}, everything else {gone:?} later");
    assert_eq!(ended.code(), 102, "{phase:?}: {}", ended.stderr);
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error")).collect();
    assert!(errors.iter().any(|error| error.contains(words)), "{phase:?}: no `{words}` in {}", ended.stderr);
    if *phase == Phase::Listing {
        return;
    }
    whole(&ended.folder().unwrap());
    let summary = ended.summary();
    assert_eq!(summary["exit_code"], 102);
    assert!(requests(&summary) <= server.seen().requests, "{summary:#}");
    if *phase == Phase::End {
        assert!(requests(&summary) > 0, "{summary:#}");
    }
}

#[test]
fn a_killed_tool_leaves_no_process_and_a_journal_that_gives_a_report() {
    use Phase::{End, Hello, Listing, Load, Reference, Services};
    let mut most = 0;
    for n in 0..RUNS {
        let killed = kill(&[Listing, Services, Hello, Reference, Load, End], n, Running::pid);
        let Killed { phase, server, ended, gone, .. } = &killed;
        println!("{phase:?}: everything gone after {gone:?}");
        assert_eq!(ended.code(), 128 + 9, "{phase:?}: {}", ended.stderr);
        let Some(folder) = ended.folder() else {
            assert!(*phase <= Services, "{phase:?} without a folder");
            continue;
        };
        whole(&folder);
        assert!(!folder.join("summary.json").exists());
        let summary = recovered(&folder);
        assert_eq!(summary["verdict"], "interrupted");
        assert!(requests(&summary) <= server.seen().requests, "{summary:#}");
        most = most.max(requests(&summary));
        // Making the report has completed the folder, and can be done again.
        whole(&folder);
        assert_eq!(requests(&recovered(&folder)), requests(&summary));
    }
    assert!(most > 50, "some runs were killed after the load, which made more than {most} requests");
}

#[test]
fn a_killed_scenario_process_is_named_and_everything_ends() {
    use Phase::{End, Hello, Listing, Load, Reference};
    for n in 0..RUNS {
        let killed = kill(&[Listing, Hello, Reference, Load, End], n, |tool| {
            tool.find("scenario process", |process| {
                process.runs("robust-") && !process.runs("robust-service")
            })
            .pid
        });
        told(&killed, "robust::robust ended (signal: 9 (SIGKILL))");
    }
}

#[test]
fn a_killed_service_is_named_and_everything_ends() {
    use Phase::{End, Hello, Load, Reference, Services};
    let service = |process: &Process| process.has("--port") && !process.has("--delay-ms");
    for n in 0..RUNS {
        let killed =
            kill(&[Services, Hello, Reference, Load, End], n, |tool| tool.find("service", service).pid);
        told(&killed, "service `plain` ended");
    }
}

#[test]
fn a_killed_guard_is_named_and_everything_ends() {
    use Phase::{End, Hello, Load, Reference, Services};
    for n in 0..RUNS {
        let killed = kill(&[Services, Hello, Reference, Load, End], n, |tool| {
            tool.find("guard", |process| process.has("__guard")).pid
        });
        told(&killed, "guard");
    }
}

#[test]
fn the_family_of_a_service_is_what_it_is_said_to_be() {
    let server = Server::start();
    let tool = start(run(&["steady", "--profile", "family"]).against(&server.url()));
    tool.wait_for("Running steady", 1);
    let idle: Vec<Process> = tool.family().into_iter().filter(|process| process.has("--idle")).collect();
    assert_eq!(idle.len(), 6, "{idle:#?}");
    let status =
        |process: &Process| std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
    let field = |process: &Process, name: &str| {
        let status = status(process);
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    // SIGTERM is the fifteenth bit.
    let ignores =
        |process: &&Process| u64::from_str_radix(&field(process, "SigIgn:"), 16).unwrap() & (1 << 14) != 0;
    assert_eq!(idle.iter().filter(ignores).count(), 3);
    let session = |process: &&Process| field(process, "NSsid:") == process.pid.to_string();
    assert_eq!(idle.iter().filter(session).count(), 2);
}
