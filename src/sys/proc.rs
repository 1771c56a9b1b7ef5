//! Linux's `/proc`: which processes there are, and what they used. Elsewhere everything is `None` or empty.
//!
//! Formats: proc(5), and Documentation/scheduler/sched-stats.rst for `schedstat`.

use std::fs;
use std::str::FromStr;

/// From `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// User and system time of all its threads, also ended ones, in clock ticks.
    pub(crate) cpu_ticks: u64,
}

impl Stat {
    /// The name, second in the line, may itself hold spaces and parentheses: fields are counted from its end.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let [user, system]: [u64; 2] = [number(fields.get(11)?)?, number(fields.get(12)?)?];
        Some(Self {
            pid: number(pid)?,
            state: fields.first()?.chars().next()?,
            parent: number(fields.get(1)?)?,
            group: number(fields.get(2)?)?,
            cpu_ticks: user + system,
        })
    }

    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// All processes.
#[cfg(target_os = "linux")]
pub(crate) fn processes() -> Vec<Stat> {
    numbers_in("/proc").into_iter().filter_map(Stat::read).collect()
}

/// The descendants of `root` in `table`, without those that `spare` holds for and theirs.
#[cfg(any(test, target_os = "linux"))]
pub(crate) fn descendants(table: &[Stat], root: u32, spare: impl Fn(&Stat) -> bool) -> Vec<Stat> {
    let mut found: Vec<Stat> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in table.iter().filter(|process| process.parent == parent && process.pid != root) {
            // The table was not read in one instant, so ids used twice could make a cycle.
            if !spare(process) && !found.iter().any(|known| known.pid == process.pid) {
                found.push(*process);
                parents.push(process.pid);
            }
        }
    }
    found
}

/// From `/proc/PID/task/TID/schedstat`, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    pub(crate) running: u64,
    /// Ready to run, but without a CPU.
    pub(crate) waiting: u64,
}

impl SchedStat {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        Some(Self { running: number(fields.next()?)?, waiting: number(fields.next()?)? })
    }

    pub(crate) fn read(pid: u32, thread: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?)
    }
}

/// The CPU time of the host, all cores, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) busy_ticks: u64,
    pub(crate) total_ticks: u64,
    /// Of the busy ones, those in which the hypervisor ran others on this host's CPUs.
    pub(crate) steal_ticks: u64,
}

impl Host {
    /// From `/proc/stat`. Guest time is part of user time there; waiting for a disk is idle.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map(number).collect::<Option<_>>()?;
        let [idle, disk] = [*ticks.get(3)?, *ticks.get(4)?];
        let total_ticks: u64 = ticks.iter().sum();
        Some(Self {
            busy_ticks: total_ticks - idle - disk,
            total_ticks,
            steal_ticks: *ticks.get(7).unwrap_or(&0),
        })
    }

    pub(crate) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }
}

/// How many descriptors a process has open, from `/proc/PID/fd`; another user's are not told.
pub(crate) fn open_files(pid: u32) -> Option<u64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

/// The ids and names of all processes. A name is what `ps -e -o comm` prints: the file's, cut off after 15 bytes.
pub(crate) fn names() -> Vec<(u32, String)> {
    let name = |pid| {
        let bytes = fs::read(format!("/proc/{pid}/comm")).ok()?;
        Some((pid, String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()))
    };
    numbers_in("/proc").into_iter().filter_map(name).collect()
}

/// For how long, since the host's start, something was ready to run but without a CPU, in microseconds: from
/// `/proc/pressure/cpu`, where the kernel has it.
pub(crate) fn cpu_pressure_micros() -> Option<u64> {
    parse_pressure(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    number(line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?)
}

/// The resident memory of a process, from `/proc/PID/status`.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    parse_resident_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_resident_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = number(value.trim().strip_suffix(" kB")?)?;
    Some(kibibytes * 1024)
}

/// The ids of a process's threads.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The processes that a thread started and that still are its children.
pub(crate) fn children(pid: u32, thread: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(number).collect()
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect()
}

fn number<T: FromStr>(text: impl AsRef<str>) -> Option<T> {
    text.as_ref().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_spaces_and_parentheses() {
        let line = "4711 (a) b (c)) S 12 4711 4711 0 -1 4194304 1500 20 0 0 31 7 5 3 20 0 9 0 88 1000 200 184467 1 1";
        assert_eq!(
            Stat::parse(line),
            Some(Stat { pid: 4711, state: 'S', parent: 12, group: 4711, cpu_ticks: 38 })
        );
    }

    #[test]
    fn broken_lines_are_none() {
        for line in [
            "",
            "1",
            "1 (sh",
            "1 (sh) S",
            "x (sh) S 1 1 1 0 -1 0 0 0 0 0 1 1",
            "1 (sh) S 1 1 1 0 -1 0 0 0 0 0 1",
        ] {
            assert_eq!(Stat::parse(line), None, "{line:?}");
        }
        for line in ["", "12", "a b 3"] {
            assert_eq!(SchedStat::parse(line), None, "{line:?}");
        }
        for text in ["", "cpu0 1 2 3 4 5", "cpu  1 2 3 4", "cpu  1 2 x 4 5 6 7 8"] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn guest_time_is_not_counted_twice_and_disk_waits_are_idle() {
        let text = "cpu  100 5 50 800 20 3 2 20 40 1\ncpu0 50 2 25 400 10 1 1 10 20 0\nintr 5\n";
        assert_eq!(Host::parse(text), Some(Host { busy_ticks: 180, total_ticks: 1000, steal_ticks: 20 }));
    }

    #[test]
    fn thread_times_and_memory_are_read() {
        assert_eq!(SchedStat::parse("1500 13200 42\n"), Some(SchedStat { running: 1500, waiting: 13200 }));
        assert_eq!(parse_resident_bytes("Name:\tsh\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\n"), Some(524_288));
        assert_eq!(parse_resident_bytes("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn pressure_is_the_time_in_which_some_waited() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.10 total=4711\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(parse_pressure(text), Some(4711));
        for text in ["", "full avg10=0.00 total=9\n", "some avg10=0.00\n", "some total=x\n"] {
            assert_eq!(parse_pressure(text), None, "{text:?}");
        }
    }

    #[test]
    fn descendants_reach_through_generations_and_stop_at_the_spared() {
        let process = |pid, parent| Stat { pid, state: 'S', parent, group: pid, cpu_ticks: 0 };
        let table = [
            process(1, 0),
            process(10, 1),
            process(30, 20),
            process(20, 10),
            process(40, 10),
            process(41, 40),
        ];
        let pids = |spare: u32| {
            let mut pids: Vec<u32> =
                descendants(&table, 10, |process| process.pid == spare).iter().map(|p| p.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(0), [20, 30, 40, 41]);
        assert_eq!(pids(40), [20, 30]);
    }

    #[test]
    fn ids_that_form_a_cycle_end_the_search() {
        let process = |pid, parent| Stat { pid, state: 'S', parent, group: pid, cpu_ticks: 0 };
        let table = [process(20, 10), process(10, 30), process(30, 20)];
        assert_eq!(descendants(&table, 10, |_| false).len(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_among_all_processes() {
        let me = std::process::id();
        assert!(processes().iter().any(|process| process.pid == me));
        assert!(threads(me).contains(&me));
        assert!(resident_bytes(me).unwrap() > 0);
        assert!(open_files(me).unwrap() >= 3);
        assert!(names().iter().any(|(pid, name)| *pid == me && !name.is_empty()));
        assert!(Host::read().unwrap().total_ticks > 0);
    }
}
