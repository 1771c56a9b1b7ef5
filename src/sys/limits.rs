//! How many descriptors and local ports this process may have, and has.

/// Raises the soft limit of open descriptors to the hard one, where the system lets it; the limit that holds then. `None`:
/// there is none, or the system does not tell.
pub(crate) fn raise_open_files() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Where it is not allowed, what was there holds.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        getrlimit(Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

/// How many descriptors this process has open; only Linux tells.
pub(crate) fn open_files() -> Option<u64> {
    // The one that is open for looking is counted, too.
    Some((std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// How many local ports connections are given, for each source address and target; only Linux tells.
pub(crate) fn local_ports() -> Option<u64> {
    parse_port_range(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// The first and the last port.
fn parse_port_range(text: &str) -> Option<u64> {
    let mut ports = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (first, last) = (ports.next()?.ok()?, ports.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_range_has_both_its_ends() {
        assert_eq!(parse_port_range("32768\t60999\n"), Some(28_232));
        assert_eq!(parse_port_range("1024 1024\n"), Some(1));
        for text in ["", "1", "a b", "9 8"] {
            assert_eq!(parse_port_range(text), None, "{text:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one_and_what_is_open_is_counted() {
        let limit = raise_open_files();
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        assert_eq!(fields[3], fields[4], "soft and hard: {line}");
        assert_eq!(limit.map_or("unlimited".to_owned(), |limit| limit.to_string()), fields[3]);
        assert!(open_files().unwrap() >= 3);
        assert!(local_ports().unwrap() > 1);
    }
}
