//! The control groups that this process is in, as far as they limit its CPU time: Linux's cgroups, version 1 and 2.
//!
//! Formats: cgroups(7), proc(5) for `mountinfo`, and Documentation/scheduler/sched-bwc.rst for `cpu.stat`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::model::health::Throttled;

/// What throttled this process so far: of its own group and those above it, the one that did most. `None` where nothing
/// limits it, or nothing tells.
pub(crate) fn throttled() -> Option<Throttled> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let files = stat_files(&groups, &mounts);
    files.iter().filter_map(|file| parse(&fs::read_to_string(file).ok()?)).max_by_key(|found| found.time)
}

/// From a group's `cpu.stat`: microseconds in version 2, nanoseconds in version 1.
fn parse(text: &str) -> Option<Throttled> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let time = field("throttled_usec")
        .map(Duration::from_micros)
        .or_else(|| field("throttled_time").map(Duration::from_nanos))?;
    Some(Throttled { periods: field("nr_throttled")?, time })
}

/// The `cpu.stat` files of the process's groups and those above them, as far as they are to be seen from here.
fn stat_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    groups
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
            let is_of_cpu = controllers.is_empty() || controllers.split(',').any(|name| name == "cpu");
            let mount = mounts.lines().filter_map(Mount::parse).find(|mount| mount.has(controllers))?;
            is_of_cpu.then(|| mount.folders(group))
        })
        .flatten()
        .map(|folder| folder.join("cpu.stat"))
        .collect()
}

/// Where a hierarchy of groups is to be seen.
struct Mount<'a> {
    /// The group that stands at `point`: not the topmost one in a container.
    root: &'a str,
    point: &'a str,
    /// `cgroup` or `cgroup2`.
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, file_system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let (root, point) = (place.next()?, place.next()?);
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        kind.starts_with("cgroup").then_some(Self { root, point, kind, options })
    }

    /// Version 2 has one hierarchy and names no controllers.
    fn has(&self, controllers: &str) -> bool {
        match controllers {
            "" => self.kind == "cgroup2",
            _ => self.kind == "cgroup" && self.options.split(',').any(|option| option == "cpu"),
        }
    }

    /// The group's folder and those above it, up to the mount's.
    fn folders(&self, group: &str) -> Vec<PathBuf> {
        // A group that is not below what is mounted is written with `..`; then the mount's own is the best there is.
        let is_seen = |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
        let below = Path::new(group).strip_prefix(self.root).ok().filter(is_seen).unwrap_or(Path::new(""));
        below.ancestors().map(|folder| Path::new(self.point).join(folder)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "36 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
                      37 32 0:32 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                      25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
    const V2: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn files(groups: &str, mounts: &str) -> Vec<String> {
        stat_files(groups, mounts).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn version_2_tells_microseconds_and_version_1_nanoseconds() {
        let v2 = "usage_usec 9\nuser_usec 7\nsystem_usec 2\nnr_periods 50\nnr_throttled 12\nthrottled_usec 340000\n\
                  nr_bursts 0\nburst_usec 0\n";
        let v1 = "nr_periods 50\nnr_throttled 12\nthrottled_time 340000000\n";
        let want = Throttled { periods: 12, time: Duration::from_millis(340) };
        assert_eq!((parse(v2), parse(v1)), (Some(want), Some(want)));
        // The topmost group has no quota.
        assert_eq!(parse("usage_usec 9\nuser_usec 7\nsystem_usec 2\n"), None);
        assert_eq!(parse("nr_throttled x\nthrottled_usec 1\n"), None);
    }

    #[test]
    fn the_groups_above_are_looked_at_too() {
        assert_eq!(
            files("0::/user.slice/run.scope\n", V2),
            [
                "/sys/fs/cgroup/user.slice/run.scope/cpu.stat",
                "/sys/fs/cgroup/user.slice/cpu.stat",
                "/sys/fs/cgroup/cpu.stat"
            ]
        );
        assert_eq!(
            files("12:memory:/a\n4:cpu,cpuacct:/a\n0::/\n", V1),
            ["/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"]
        );
    }

    #[test]
    fn in_a_container_the_mount_begins_at_its_group() {
        let mounts = V1.replace("0:31 / ", "0:31 /docker/4f ");
        assert_eq!(files("4:cpu,cpuacct:/docker/4f\n", &mounts), ["/sys/fs/cgroup/cpu,cpuacct/cpu.stat"]);
        // A group outside of what is mounted here: its own name says nothing.
        assert_eq!(files("0::/../other\n", V2), ["/sys/fs/cgroup/cpu.stat"]);
    }

    #[test]
    fn nonsense_leads_nowhere() {
        for (groups, mounts) in
            [("", V2), ("0::/a\n", ""), ("0\n0:\n", V2), ("0::/a\n", "36 - \n- cgroup2\n")]
        {
            assert_eq!(files(groups, mounts), [""; 0], "{groups:?} {mounts:?}");
        }
    }
}
