//! Real processes: shell scripts as services, under a guard.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::sys::{clock, env, process};

mod ends;
mod starts;

/// Two seconds are promised; a busy machine gets more.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Each process of a service has it in its environment, so that all of them can be found.
const MARKER: &str = "SERVICE_TEST_MARKER";
/// Says what this test binary is when it is run as another process.
const ROLE: &str = "SERVICE_TEST_ROLE";

const FORKS: &str = "sleep 600 & (sleep 600 & sleep 600 &) ; wait";
const LEAVES_ITS_SESSION: &str = "(setsid sh -c 'sleep 600 & exec sleep 600' &) ; exec sleep 600";
const IGNORES_TERM: &str = "trap '' TERM HUP; sleep 600 & while :; do sleep 1; done";

fn spec(name: &str, script: &str) -> ServiceSpec {
    ServiceSpec::shell(name, script)
}

fn line(contains: &str) -> Ready {
    Ready::LogLine { contains: contains.to_owned() }
}

/// A run folder, and a mark for the processes of its services.
struct Run {
    folder: TempDir,
    marker: String,
}

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let marker = format!("{MARKER}={}", folder.path().display());
        Self { folder, marker }
    }

    fn at(folder: &Path) -> Context {
        Context {
            guard: as_role("guard", "acts_as_a_guard"),
            inherited: env::vars().collect(),
            traced: true,
            root: PathBuf::from("."),
            logs: folder.join("services"),
            secrets: ["hunter2"].into_iter().collect(),
        }
    }

    fn context(&self) -> Context {
        Self::at(self.folder.path())
    }

    fn placeholders(&self, specs: &[ServiceSpec]) -> Placeholders {
        let folder = self.folder.path().to_str().unwrap();
        Placeholders::allocate(specs, folder, "http://127.0.0.1:4317").unwrap()
    }

    async fn start(&self, mut specs: Vec<ServiceSpec>) -> Result<Services, ServiceError> {
        mark(&mut specs);
        Services::start(&specs, &self.placeholders(&specs), &self.context()).await
    }

    /// Why it cannot be started; nothing of it may be left.
    async fn refused(&self, specs: Vec<ServiceSpec>) -> ServiceError {
        let error = self.start(specs).await.unwrap_err();
        assert_eq!(self.processes(), [0; 0]);
        error
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("services/{name}.log"))).unwrap()
    }

    /// Hides what differs from run to run.
    fn shown(&self, error: &ServiceError) -> String {
        error.to_string().replace(self.folder.path().to_str().unwrap(), "RUN")
    }

    /// The ids of the services' processes and of those that they started.
    fn processes(&self) -> Vec<u32> {
        let marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.marker.as_bytes())
        };
        crate::sys::proc::processes().iter().map(|process| process.pid).filter(marked).collect()
    }

    fn wait_for_processes(&self, wanted: impl Fn(usize) -> bool) {
        let begin = clock::now();
        loop {
            let processes = self.processes();
            if wanted(processes.len()) {
                return;
            }
            assert!(begin.elapsed() < GONE_WITHIN, "{} processes: {processes:?}", processes.len());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn mark(specs: &mut [ServiceSpec]) {
    for spec in specs {
        spec.env.insert(MARKER.to_owned(), "{run_dir}".to_owned());
    }
}

/// The command line that runs one test of this binary in a process of its own.
fn as_role(role: &str, test: &str) -> Vec<OsString> {
    let test = format!("{}::ends::{test}", module_path!().split_once("::").unwrap().1);
    // With one test thread, libtest writes the test's name in front of the first line.
    let args = ["--exact", &test, "--nocapture", "--test-threads=2"].map(OsString::from);
    let program = process::own_program().unwrap().into();
    [OsString::from("env"), format!("{ROLE}={role}").into(), program].into_iter().chain(args).collect()
}

fn role() -> Option<String> {
    env::var(ROLE)
}
