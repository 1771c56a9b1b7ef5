//! Children and everything that they start: reaping them, and ending all of them.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use super::clock;

/// How long processes have to end by themselves, once they were asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long killed processes may take; only ones that hang in the kernel need more than a moment.
const KILLED: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

/// Makes this process the parent of descendants that lose theirs, so that [`end_all`] finds them.
///
/// Only Linux can; elsewhere a process that leaves its group is lost.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// The children of this process, each in a group of its own.
#[derive(Debug, Default)]
pub(crate) struct Children {
    #[cfg(not(unix))]
    held: Vec<Child>,
}

impl Children {
    /// Starts `command` and returns the child's id, which is also the id of its process group.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> io::Result<u32> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let child = command.spawn()?;
        let pid = child.id();
        self.keep(child);
        Ok(pid)
    }

    #[cfg(unix)]
    #[expect(clippy::unused_self, reason = "where there is no `wait`, the handle is kept")]
    fn keep(&mut self, child: Child) {
        // `reap` asks for any child, so the handle is of no use.
        drop(child);
    }

    #[cfg(not(unix))]
    fn keep(&mut self, child: Child) {
        self.held.push(child);
    }

    /// The children that ended since the last call, adopted ones included.
    #[cfg(unix)]
    #[expect(clippy::unused_self, reason = "where there is no `wait`, the handles are asked")]
    pub(crate) fn reap(&mut self) -> Vec<(u32, ExitStatus)> {
        use std::os::unix::process::ExitStatusExt;

        use rustix::process::{WaitOptions, wait};

        let ended = std::iter::from_fn(|| wait(WaitOptions::NOHANG).ok().flatten());
        ended
            .map(|(pid, status)| {
                (pid.as_raw_nonzero().get().unsigned_abs(), ExitStatus::from_raw(status.as_raw()))
            })
            .collect()
    }

    #[cfg(not(unix))]
    pub(crate) fn reap(&mut self) -> Vec<(u32, ExitStatus)> {
        let mut ended = Vec::new();
        self.held.retain_mut(|child| match child.try_wait() {
            Ok(Some(status)) => {
                ended.push((child.id(), status));
                false
            }
            _ => true,
        });
        ended
    }
}

/// Returns when the process `pid` is dead and its children have another parent, at the latest after a few seconds. Only
/// Linux tells; elsewhere it returns at once. Blocks.
pub(crate) fn until_dead(pid: u32) {
    let begin = clock::now();
    while os::is_alive(pid) && clock::now().duration_since(begin) < KILLED {
        std::thread::sleep(PAUSE);
    }
}

/// Ends every descendant of this process except those that `spare(pid, group)` holds for, and what these started:
/// asks first, kills after one second, until none is left. Returns the processes that could not be ended.
///
/// Where descendants cannot be listed (everywhere but on Linux) it ends the process groups in `groups`. Blocks.
pub(crate) fn end_all(groups: &[u32], spare: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let begin = clock::now();
    let mut asked = BTreeSet::new();
    // On a machine that is out of breath this loop may stand still for seconds: patience runs from the first kill.
    let mut killing_since = None;
    loop {
        let left = os::alive(groups, &spare);
        let now = clock::now();
        if left.is_empty() || killing_since.is_some_and(|since| now.duration_since(since) > KILLED) {
            return left;
        }
        if now.duration_since(begin) >= GRACE {
            killing_since.get_or_insert(now);
        }
        for &process in &left {
            if killing_since.is_some() {
                os::kill(process);
            } else if asked.insert(process) {
                os::ask(process);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(target_os = "linux")]
mod os {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    use crate::sys::proc;

    /// The kernel makes a dying thread a zombie after it has handed its children on, if need be to another thread.
    pub(super) fn is_alive(pid: u32) -> bool {
        let alive = proc::Stat::read(pid).is_some_and(|process| !matches!(process.state, 'Z' | 'X'));
        alive || proc::threads(pid).len() > 1
    }

    pub(super) fn alive(_groups: &[u32], spare: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let me = std::process::id();
        let table = proc::processes();
        let mut left = Vec::new();
        for process in proc::descendants(&table, me, |process| spare(process.pid, process.group)) {
            if process.state != 'Z' {
                left.push(process.pid);
            } else if process.parent == me {
                reap(process.pid);
            }
        }
        left
    }

    pub(super) fn ask(pid: u32) {
        signal(pid, Signal::TERM);
    }

    pub(super) fn kill(pid: u32) {
        signal(pid, Signal::KILL);
    }

    fn signal(pid: u32, signal: Signal) {
        if let Some(pid) = checked(pid) {
            // It may have ended a moment ago; the next look tells.
            let _ = kill_process(pid, signal);
        }
    }

    fn reap(pid: u32) {
        if let Some(pid) = checked(pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    fn checked(pid: u32) -> Option<Pid> {
        Pid::from_raw(i32::try_from(pid).ok()?)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod os {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};

    pub(super) fn is_alive(_pid: u32) -> bool {
        false
    }

    pub(super) fn alive(groups: &[u32], spare: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let alive = |&group: &u32| {
            let Some(group) = checked(group) else { return false };
            let _ = waitpid(Some(group), WaitOptions::NOHANG);
            test_kill_process_group(group).is_ok()
        };
        groups.iter().copied().filter(|&group| !spare(group, group)).filter(alive).collect()
    }

    pub(super) fn ask(group: u32) {
        signal(group, Signal::TERM);
    }

    pub(super) fn kill(group: u32) {
        signal(group, Signal::KILL);
    }

    fn signal(group: u32, signal: Signal) {
        if let Some(group) = checked(group) {
            let _ = kill_process_group(group, signal);
        }
    }

    fn checked(group: u32) -> Option<Pid> {
        Pid::from_raw(i32::try_from(group).ok()?)
    }
}

#[cfg(not(unix))]
mod os {
    use crate::sys::process::unwatched_command;

    pub(super) fn is_alive(_pid: u32) -> bool {
        false
    }

    pub(super) fn alive(groups: &[u32], spare: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
        groups.iter().copied().filter(|&pid| !spare(pid, pid)).filter(|&pid| task(pid, &[])).collect()
    }

    /// There is no asking without a console of its own.
    pub(super) fn ask(pid: u32) {
        kill(pid);
    }

    pub(super) fn kill(pid: u32) {
        task(pid, &["/F"]);
    }

    /// `taskkill` with the whole tree; whether there was such a process.
    fn task(pid: u32, flags: &[&str]) -> bool {
        let mut command = unwatched_command("taskkill");
        command.args(["/T", "/PID", &pid.to_string()]).args(flags);
        command.output().is_ok_and(|output| output.status.success())
    }
}
