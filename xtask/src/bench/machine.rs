//! The machine that the figures are of: what it is, and how many files its processes may have open.

use std::fs;
use std::thread;

use anyhow::{Result, ensure};

/// Descriptors of a process beside its connections, with room to spare.
const BESIDE: u64 = 200;

/// Lets this process and those it starts have as many connections open as there are users.
#[cfg(unix)]
pub(super) fn allow_descriptors(users: u32) -> Result<()> {
    use anyhow::Context as _;
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    let needed = u64::from(users) + BESIDE;
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    ensure!(
        limit.maximum.is_none_or(|maximum| maximum >= needed),
        "{users} users need {needed} open files, and this system allows a process {}; ask for fewer users, or raise the hard \
         limit (`ulimit -Hn`)",
        limit.maximum.unwrap_or_default()
    );
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).context("could not raise the limit of open files")
}

#[cfg(not(unix))]
pub(super) fn allow_descriptors(_: u32) -> Result<()> {
    Ok(())
}

/// A sentence for the page: cores, processor, system, and how busy it is already.
pub(super) fn described() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let processor = processor(&read("/proc/cpuinfo"));
    let system = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{cores} cores of {processor}, Linux {}, load average {} when it began.",
        system.trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "an unnamed processor".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{allow_descriptors, processor};

    #[test]
    fn the_processor_is_named_where_the_kernel_names_it() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: AMD EPYC 7B13\n"), "AMD EPYC 7B13");
        assert_eq!(processor("processor\t: 0\n"), "an unnamed processor");
    }

    #[test]
    #[cfg(unix)]
    fn more_users_than_the_system_allows_is_an_error_that_says_so() {
        allow_descriptors(1).unwrap();
        let maximum = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        if maximum.is_some_and(|maximum| maximum < u64::from(u32::MAX)) {
            let error = allow_descriptors(u32::MAX).unwrap_err();
            assert!(error.to_string().contains("ulimit -Hn"), "{error}");
        }
    }
}
