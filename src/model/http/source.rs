//! Addresses that connections come from: single ones, ranges and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `127.0.0.2`, `127.0.0.2-127.0.0.50`, `10.0.0.0/24`, or several of these between commas. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceIps {
    text: String,
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    is_ipv4: bool,
    first: u128,
    last: u128,
}

impl Range {
    fn count(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    fn nth(&self, n: u128) -> IpAddr {
        let bits = self.first + n;
        if self.is_ipv4 { Ipv4Addr::from(bits as u32).into() } else { Ipv6Addr::from(bits).into() }
    }
}

impl SourceIps {
    /// The address of the `n`-th user: one after the other, and from the beginning when all have had their turn.
    pub(crate) fn nth(&self, n: u64) -> IpAddr {
        let mut left = u128::from(n) % self.count();
        for range in &self.ranges {
            if left < range.count() {
                return range.nth(left);
            }
            left -= range.count();
        }
        self.ranges[0].nth(0)
    }

    /// How many addresses there are.
    pub(crate) fn count(&self) -> u128 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.count()))
    }
}

fn address(text: &str) -> Result<(bool, u128), String> {
    match text.trim().parse() {
        Ok(IpAddr::V4(address)) => Ok((true, u32::from(address).into())),
        Ok(IpAddr::V6(address)) => Ok((false, address.into())),
        Err(_) => {
            Err(format!("`{text}` is no address; write 127.0.0.2, 127.0.0.2-127.0.0.50 or 10.0.0.0/24"))
        }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((first, last)) = text.split_once('-') {
            let ((is_ipv4, first), (also, last)) = (address(first)?, address(last)?);
            if is_ipv4 != also || first > last {
                return Err(format!("`{text}` is no range: it does not go from one address up to another"));
            }
            return Ok(Self { is_ipv4, first, last });
        }
        let Some((network, prefix)) = text.split_once('/') else {
            let (is_ipv4, only) = address(text)?;
            return Ok(Self { is_ipv4, first: only, last: only });
        };
        let (is_ipv4, inside) = address(network)?;
        let bits: u32 = if is_ipv4 { 32 } else { 128 };
        let host_bits = prefix.trim().parse().ok().and_then(|prefix| bits.checked_sub(prefix));
        let host_bits = host_bits
            .ok_or_else(|| format!("`{text}` is no network: what follows the slash is 0 to {bits}"))?;
        let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |count| count - 1);
        let (first, last) = (inside & !hosts, inside | hosts);
        // The first address of an IPv4 network is its own name, and the last reaches all: neither is anybody's.
        if is_ipv4 && host_bits > 1 {
            return Ok(Self { is_ipv4, first: first + 1, last: last - 1 });
        }
        Ok(Self { is_ipv4, first, last })
    }
}

impl FromStr for SourceIps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ranges = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), ranges })
    }
}

impl fmt::Display for SourceIps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for SourceIps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SourceIps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn users_take_turns_over_all_addresses() {
        for (text, addresses) in [
            ("127.0.0.2", vec!["127.0.0.2"]),
            ("127.0.0.254-127.0.1.1", vec!["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"]),
            ("10.1.2.3/30", vec!["10.1.2.1", "10.1.2.2"]),
            ("10.1.2.3/31", vec!["10.1.2.2", "10.1.2.3"]),
            ("10.1.2.3/32", vec!["10.1.2.3"]),
            ("fd00::8/127, 127.0.0.9", vec!["fd00::8", "fd00::9", "127.0.0.9"]),
        ] {
            let source: SourceIps = text.parse().unwrap();
            let turns: Vec<String> =
                (0..=addresses.len() as u64).map(|n| source.nth(n).to_string()).collect();
            let wanted: Vec<&str> = addresses.iter().chain(addresses.first()).copied().collect();
            assert_eq!(turns, wanted, "{text}");
            assert_eq!(source.count(), addresses.len() as u128);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, words) in [
            ("", "no address"),
            ("localhost", "`localhost` is no address"),
            ("127.0.0.2,", "`` is no address"),
            ("127.0.0.9-127.0.0.2", "no range"),
            ("127.0.0.9-::1", "no range"),
            ("10.0.0.0/33", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.0.0.0/x", "0 to 32"),
        ] {
            let error = text.parse::<SourceIps>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_user_has_an_address_of_the_network(bits: u128, prefix in 0_u8..=128, n: u64) {
            let text = format!("{}/{prefix}", Ipv6Addr::from(bits));
            let source: SourceIps = text.parse().unwrap();
            let IpAddr::V6(address) = source.nth(n) else { panic!("no IPv6 address") };
            let shift = 128 - u32::from(prefix);
            let network = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
            prop_assert_eq!(network(address.into()), network(bits));
        }
    }
}
