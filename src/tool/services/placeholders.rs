//! `{port}`, `{service.NAME.port}`, `{run_dir}` and `{otlp.endpoint}` in configured strings.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use super::error::ServiceError;
use super::spec::ServiceSpec;

/// What the placeholders stand for in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placeholders {
    ports: BTreeMap<String, u16>,
    run_dir: String,
    otlp_endpoint: String,
}

/// Why a string could not be filled in. It is a mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceholderError {
    #[error("unknown placeholder `{{{placeholder}}}` in `{text}`: known here are {}; a literal brace is `{{{{` or `}}}}`", .known.join(", "))]
    Unknown { placeholder: String, text: String, known: Vec<String> },
    #[error("unbalanced brace in `{text}`: a placeholder is `{{name}}`, a literal brace `{{{{` or `}}}}`")]
    Unbalanced { text: String },
}

impl Placeholders {
    /// Chooses a free loopback port for each service that has no fixed one.
    pub(crate) fn allocate(
        specs: &[ServiceSpec],
        run_dir: impl Into<String>,
        otlp_endpoint: impl Into<String>,
    ) -> Result<Self, ServiceError> {
        // All are held until the last one is chosen, so that none is given twice.
        let mut held = Vec::new();
        let mut ports = BTreeMap::new();
        for spec in specs {
            let port = match spec.port {
                Some(port) => port,
                None => free_port(&mut held, specs).map_err(|source| ServiceError::NoPort { source })?,
            };
            ports.insert(spec.name.clone(), port);
        }
        Ok(Self { ports, run_dir: run_dir.into(), otlp_endpoint: otlp_endpoint.into() })
    }

    pub(crate) fn port(&self, service: &str) -> Option<u16> {
        self.ports.get(service).copied()
    }

    pub(super) fn otlp_endpoint(&self) -> &str {
        &self.otlp_endpoint
    }

    /// Fills in `text`, which belongs to `service`, or to none (then there is no `{port}`).
    pub(crate) fn expand(&self, service: Option<&str>, text: &str) -> Result<String, PlaceholderError> {
        let unbalanced = || PlaceholderError::Unbalanced { text: text.to_owned() };
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            filled.push_str(&rest[..at]);
            let from_brace = &rest[at..];
            if from_brace.starts_with("{{") || from_brace.starts_with("}}") {
                filled.push_str(&from_brace[..1]);
                rest = &from_brace[2..];
                continue;
            }
            let (placeholder, after) = from_brace
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'))
                .ok_or_else(unbalanced)?;
            let value = self.value(service, placeholder).ok_or_else(|| PlaceholderError::Unknown {
                placeholder: placeholder.to_owned(),
                text: text.to_owned(),
                known: self.known(service),
            })?;
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, service: Option<&str>, placeholder: &str) -> Option<String> {
        match placeholder {
            "port" => self.port(service?).map(|port| port.to_string()),
            "run_dir" => Some(self.run_dir.clone()),
            "otlp.endpoint" => Some(self.otlp_endpoint.clone()),
            _ => {
                let name = placeholder.strip_prefix("service.")?.strip_suffix(".port")?;
                self.port(name).map(|port| port.to_string())
            }
        }
    }

    fn known(&self, service: Option<&str>) -> Vec<String> {
        let own = service.map(|_| "`{port}`".to_owned());
        let general = ["`{run_dir}`".to_owned(), "`{otlp.endpoint}`".to_owned()];
        let others = self.ports.keys().map(|name| format!("`{{service.{name}.port}}`"));
        own.into_iter().chain(general).chain(others).collect()
    }
}

/// Whether `{port}` stands in `text`, and not only in doubled braces.
pub(super) fn names_own_port(text: &str) -> bool {
    text.replace("{{", "").contains("{port}")
}

fn free_port(held: &mut Vec<TcpListener>, specs: &[ServiceSpec]) -> io::Result<u16> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // Holding it also keeps the next turn from getting it again.
        held.push(listener);
        if specs.iter().all(|spec| spec.port != Some(port)) {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn placeholders() -> Placeholders {
        Placeholders {
            ports: BTreeMap::from([("auth".to_owned(), 4001), ("a.b-c".to_owned(), 4002)]),
            run_dir: "/runs/7".to_owned(),
            otlp_endpoint: "http://127.0.0.1:4317".to_owned(),
        }
    }

    #[test]
    fn placeholders_are_filled_in() {
        for (text, filled) in [
            ("", ""),
            ("plain", "plain"),
            ("{port}", "4001"),
            ("http://127.0.0.1:{port}/healthz", "http://127.0.0.1:4001/healthz"),
            ("{service.a.b-c.port}{service.auth.port}", "40024001"),
            ("{run_dir}/db é", "/runs/7/db é"),
            ("{otlp.endpoint}", "http://127.0.0.1:4317"),
            ("{{port}}", "{port}"),
            (r#"{{"a":{{"b":{port}}}}}"#, r#"{"a":{"b":4001}}"#),
        ] {
            assert_eq!(placeholders().expand(Some("auth"), text).as_deref(), Ok(filled), "{text}");
        }
    }

    #[test]
    fn an_unknown_placeholder_names_the_known_ones() {
        let error = placeholders().expand(Some("auth"), "x{prot}").unwrap_err();
        insta::assert_snapshot!(error, @"unknown placeholder `{prot}` in `x{prot}`: known here are `{port}`, `{run_dir}`, `{otlp.endpoint}`, `{service.a.b-c.port}`, `{service.auth.port}`; a literal brace is `{{` or `}}`");
    }

    #[test]
    fn there_is_no_own_port_outside_a_service() {
        let error = placeholders().expand(None, "{port}").unwrap_err();
        assert!(!error.to_string().contains("are `{port}`"), "{error}");
    }

    #[test]
    fn unbalanced_braces_are_errors() {
        for text in ["{", "}", "{port", "port}", "a } b", "{port}}", "{{port}"] {
            let error = placeholders().expand(Some("auth"), text).unwrap_err();
            assert_eq!(error, PlaceholderError::Unbalanced { text: text.to_owned() });
        }
    }

    #[test]
    fn the_own_port_is_named_only_by_its_placeholder() {
        for (text, named) in
            [("{port}", true), ("{{{port}", true), ("{{port}}", false), ("{service.a.port}", false)]
        {
            assert_eq!(names_own_port(text), named, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_with_doubled_braces_comes_back(text in ".*") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(placeholders().expand(None, &doubled), Ok(text));
        }

        #[test]
        fn a_text_is_filled_in_piece_by_piece(
            pieces in prop::collection::vec(0_usize..7, 0..12), at in 0_usize..12, wrong in prop::option::of(0_usize..3),
        ) {
            const PIECES: [(&str, &str); 7] = [
                ("a.é", "a.é"), ("{{", "{"), ("}}", "}"), ("{port}", "4001"), ("{service.a.b-c.port}", "4002"),
                ("{run_dir}", "/runs/7"), ("{otlp.endpoint}", "http://127.0.0.1:4317"),
            ];
            let text = |pieces: &[usize]| pieces.iter().map(|piece| PIECES[*piece].0).collect::<String>();
            let filled: String = pieces.iter().map(|piece| PIECES[*piece].1).collect();
            let own = Some("auth");
            let Some(wrong) = wrong else {
                prop_assert_eq!(placeholders().expand(own, &text(&pieces)), Ok(filled));
                return Ok(());
            };
            let (before, after) = pieces.split_at(at.min(pieces.len()));
            let (wrong, unknown) = [("{ports}", Some("ports")), ("} ", None), ("{ ", None)][wrong];
            // A brace that is doubled by the piece behind it, or closed by one, is another text.
            let after = if unknown.is_none() { &[][..] } else { after };
            let text = format!("{}{wrong}{}", text(before), text(after));
            match (placeholders().expand(own, &text), unknown) {
                (Err(PlaceholderError::Unknown { placeholder, text: of, .. }), Some(unknown)) => {
                    prop_assert_eq!((placeholder.as_str(), of), (unknown, text));
                }
                (Err(PlaceholderError::Unbalanced { text: of }), None) => prop_assert_eq!(of, text),
                (other, _) => prop_assert!(false, "{} is {:?}", text, other),
            }
        }
    }

    #[test]
    fn ports_are_distinct_and_fixed_ones_are_kept() {
        let mut specs: Vec<_> = (0..50).map(|n| ServiceSpec::shell(&format!("s{n}"), "exit")).collect();
        specs[7].port = Some(7);
        let placeholders = Placeholders::allocate(&specs, "", "").unwrap();
        let ports: BTreeSet<u16> = specs.iter().filter_map(|spec| placeholders.port(&spec.name)).collect();
        assert_eq!(ports.len(), 50);
        assert_eq!(placeholders.port("s7"), Some(7));
    }
}
