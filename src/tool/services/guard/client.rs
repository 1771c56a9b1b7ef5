//! The tool's side of a guard.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Report, Request, Start};
use crate::sys::{family, process};

/// Longer than a guard needs to kill what does not end by itself.
const PATIENCE: Duration = Duration::from_secs(4);

/// A running guard. Dropping it ends the services, without waiting for that.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    requests: ChildStdin,
    state: watch::Receiver<State>,
    spared: Arc<Mutex<Vec<u32>>>,
}

/// What is known from the guard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    ready: bool,
    /// It ended without being asked to; what it leaves behind is being ended.
    pub(crate) lost: bool,
    /// It says nothing any more. Where it did not end in order, the services were ended by this process.
    pub(crate) gone: bool,
    pub(crate) services: BTreeMap<String, Seen>,
}

/// What is known of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) started: Option<Result<u32, String>>,
    pub(crate) line: bool,
    pub(crate) ended: Option<String>,
}

impl Guard {
    /// Starts a guard, for example with [`command_line`](super::command_line).
    pub(crate) async fn start(command_line: &[OsString]) -> io::Result<Self> {
        let (program, args) =
            command_line.split_first().ok_or_else(|| io::Error::other("its command line is empty"))?;
        // Should the guard die, its services become children of this process and can be found.
        family::adopt_orphans()?;
        let mut command = process::command(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(requests), Some(reports)) = pipes else { return Err(io::Error::other("it has no pipes")) };
        let pid = child.id();
        let spared = Arc::new(Mutex::new(Vec::from_iter(pid)));
        let (sender, mut state) = watch::channel(State::default());
        tokio::spawn(follow(reports, sender, pid, Arc::clone(&spared)));
        let ready = state.wait_for(|state| state.ready || state.gone).await.is_ok_and(|state| state.ready);
        if ready {
            Ok(Self { child, requests, state, spared })
        } else {
            Err(io::Error::other(format!("it ended at once ({})", child.wait().await?)))
        }
    }

    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    pub(crate) async fn request(&mut self, start: Start) -> io::Result<()> {
        self.send(&Request::Start(start)).await
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.requests.write_all(&line).await
    }

    /// Leaves the process `pid`, which this process started in a group of its own, alone when the guard dies.
    pub(crate) fn spare(&self, pid: u32) {
        self.spared.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
    }

    /// Ends all services and the guard, and waits for it.
    pub(crate) async fn end(mut self) {
        // A guard that does not listen is gone, or its input closes now.
        let _ = self.send(&Request::End).await;
        drop(self.requests);
        let gone = async { drop(self.state.wait_for(|state| state.gone).await) };
        if timeout(PATIENCE, gone).await.is_err() {
            // It hangs. Once it is killed, `follow` ends what it leaves behind.
            let _ = self.child.start_kill();
            let _ = self.state.wait_for(|state| state.gone).await;
        }
        let _ = self.child.wait().await;
    }
}

/// Follows what a guard says until it is gone.
async fn follow(
    reports: ChildStdout,
    state: watch::Sender<State>,
    guard: Option<u32>,
    spared: Arc<Mutex<Vec<u32>>>,
) {
    let mut lines = BufReader::new(reports).lines();
    let mut in_order = false;
    while let Ok(Some(line)) = lines.next_line().await {
        // What stands before its first word comes from whatever the guard was started through.
        let Ok(report) = serde_json::from_str::<Report>(&line) else { continue };
        in_order = matches!(&report, Report::AllEnded { left } if left.is_empty());
        state.send_modify(|state| state.note(report));
    }
    if !in_order {
        state.send_modify(|state| state.lost = true);
        let groups = state.borrow().pids();
        // Blocks for at most the time that processes are given to end; a task that panics ends nothing more.
        let _ = tokio::task::spawn_blocking(move || end_orphans(&groups, guard, &spared)).await;
    }
    state.send_modify(|state| state.gone = true);
}

/// Ends what a dead guard left to this process. What this process started itself is in its own group, or spared.
fn end_orphans(groups: &[u32], guard: Option<u32>, spared: &Mutex<Vec<u32>>) {
    // A dying process closes its pipes before its children get another parent: until then they are still the guard's,
    // and spared with it.
    guard.into_iter().for_each(family::until_dead);
    family::end_all(groups, |pid, group| {
        process::is_own_group(group) || spared.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid)
    });
}

impl State {
    fn note(&mut self, report: Report) {
        match report {
            Report::Ready => self.ready = true,
            Report::Started { name, pid } => self.service(name).started = Some(Ok(pid)),
            Report::NotStarted { name, error } => self.service(name).started = Some(Err(error)),
            Report::LineSeen { name } => self.service(name).line = true,
            Report::Ended { name, status } => self.service(name).ended = Some(status),
            Report::AllEnded { .. } => {}
        }
    }

    fn service(&mut self, name: String) -> &mut Seen {
        self.services.entry(name).or_default()
    }

    fn pids(&self) -> Vec<u32> {
        self.services.values().filter_map(|seen| seen.started.clone()?.ok()).collect()
    }
}
