//! Addresses that are given for a name and port, as curl's `--resolve` has them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `HOST:PORT:ADDRESS[,ADDRESS…]`: what to connect to in place of what a look-up would say. `*` is any host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolve {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Resolve {
    pub(crate) fn fits(&self, host: &str, port: u16) -> bool {
        self.port == port && self.is_for(host)
    }

    /// Whether it fits at some port.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        self.host == "*" || self.host.eq_ignore_ascii_case(host)
    }

    /// At least one; they are tried in order.
    pub(crate) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let why = |what: String| {
            format!("`{text}`: {what}; write HOST:PORT:ADDRESS, such as shop.example:443:127.0.0.1")
        };
        let mut parts = text.splitn(3, ':');
        let (Some(host), Some(port), Some(addresses)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(why("a part is missing".into()));
        };
        if host.is_empty() {
            return Err(why("there is no host".into()));
        }
        let port = port.parse().map_err(|_| why(format!("`{port}` is no port")))?;
        let address = |text: &str| {
            let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
            bare.parse().map_err(|_| why(format!("`{text}` is no address")))
        };
        let addresses = addresses.split(',').map(address).collect::<Result<_, _>>()?;
        Ok(Self { host: host.to_owned(), port, addresses })
    }
}

impl fmt::Display for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}:{}", self.host, self.port, addresses.join(","))
    }
}

impl Serialize for Resolve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Resolve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_port_have_the_addresses_given() {
        let some: Resolve = "Shop.example:443:[::1],127.0.0.1".parse().unwrap();
        assert_eq!(some.addresses(), ["::1".parse::<IpAddr>().unwrap(), "127.0.0.1".parse().unwrap()]);
        assert!(some.fits("shop.example", 443) && !some.fits("shop.example", 80) && !some.fits("x", 443));
        assert!("*:80:::1".parse::<Resolve>().unwrap().fits("anything", 80));
        assert_eq!(some.to_string().parse(), Ok(some));
    }

    #[test]
    fn what_is_none_says_which_part_is_wrong() {
        for (text, words) in [
            ("shop.example", "a part is missing"),
            ("shop.example:443", "a part is missing"),
            (":443:127.0.0.1", "no host"),
            ("a:http:127.0.0.1", "`http` is no port"),
            ("a:80:localhost", "`localhost` is no address"),
            ("a:80:127.0.0.1,", "`` is no address"),
        ] {
            let error = text.parse::<Resolve>().unwrap_err();
            assert!(error.contains(words) && error.contains("HOST:PORT:ADDRESS"), "{error}");
        }
    }
}
