//! `metric{tag:value,…}`: of which samples a threshold is.

use super::metric::{METRICS, Source};
use crate::model::custom::MetricKind;
use crate::model::nearest::nearest;
use crate::model::plan::Declared;
use crate::model::tags::{BuiltIn, Selector, is_plain_word};

/// The metric that a threshold is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Metric {
    /// By its number in the table.
    BuiltIn(usize),
    /// One of the author's.
    Custom { name: String, kind: MetricKind },
}

/// A metric, and the tags that narrow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) metric: Metric,
    pub(super) selector: Selector,
}

/// The built-in tags of the author's own metrics.
const TAGS_OF_CUSTOM: &[BuiltIn] = &[BuiltIn::Group, BuiltIn::Scenario];

impl Metric {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::BuiltIn(number) => METRICS[*number].0,
            Self::Custom { name, .. } => name,
        }
    }

    pub(super) fn kind(&self) -> MetricKind {
        match self {
            Self::BuiltIn(number) => METRICS[*number].1.kind(),
            Self::Custom { kind, .. } => *kind,
        }
    }

    fn built_in_tags(&self) -> &'static [BuiltIn] {
        match self {
            Self::BuiltIn(number) => METRICS[*number].1.tags(),
            Self::Custom { .. } => TAGS_OF_CUSTOM,
        }
    }

    fn has_own_tags(&self) -> bool {
        match self {
            Self::BuiltIn(number) => METRICS[*number].1.has_own_tags(),
            Self::Custom { .. } => true,
        }
    }

    fn find(name: &str, declared: &Declared) -> Result<Self, String> {
        if let Some(number) = METRICS.iter().position(|(known, _)| *known == name) {
            return Ok(Self::BuiltIn(number));
        }
        if let Some(kind) = declared.metrics.get(name) {
            return Ok(Self::Custom { name: name.to_owned(), kind: *kind });
        }
        let known =
            METRICS.iter().map(|(known, _)| *known).chain(declared.metrics.keys().map(String::as_str));
        Err(format!(
            "unknown metric `{name}`{}; a metric of the scenario's own is declared with .counter, .gauge, .rate or .trend",
            nearest(name, known)
        ))
    }
}

impl Selection {
    /// Reads one, for the scenario of this name.
    pub(super) fn parse(text: &str, scenario: &str, declared: &Declared) -> Result<Self, String> {
        let (name, tags) = match text.split_once('{') {
            None => (text.trim(), Vec::new()),
            Some((name, rest)) => {
                let rest = rest.trim_end().strip_suffix('}');
                let tags = rest.ok_or_else(|| format!("`{text}` has no closing `}}`"))?;
                (name.trim(), parse_tags(tags)?)
            }
        };
        let metric = Metric::find(name, declared)?;
        for (at, (tag, value)) in tags.iter().enumerate() {
            if tags[..at].iter().any(|(other, _)| other == tag) {
                return Err(format!("`{text}` names the tag `{tag}` twice"));
            }
            check_tag(&metric, tag, declared)?;
            check_value(tag, value, scenario)?;
        }
        // A scenario's thresholds see its own samples alone.
        let narrowing = tags.into_iter().filter(|(tag, _)| tag != BuiltIn::Scenario.name());
        Ok(Self { metric, selector: Selector::new(narrowing) })
    }

    /// Whether the rows of the report have what it asks for; otherwise its samples make a series of their own.
    pub(super) fn is_of_rows(&self) -> bool {
        match &self.metric {
            Metric::BuiltIn(number) => match METRICS[*number].1.tag_of_rows() {
                Some(tag) => self.selector.is_at_most(tag),
                None => self.selector.is_empty(),
            },
            Metric::Custom { .. } => self.selector.is_empty(),
        }
    }

    /// What its samples are, where they make a series of their own.
    pub(super) fn samples(&self) -> super::Samples {
        match &self.metric {
            Metric::BuiltIn(number) => match METRICS[*number].1 {
                Source::Requests(_) => super::Samples::Requests,
                Source::Steps(_) => super::Samples::Steps,
                Source::Iterations(_) | Source::Scenario(_) => super::Samples::Iterations,
                Source::Checks => super::Samples::Checks,
            },
            Metric::Custom { name, .. } => super::Samples::Metric(name.clone()),
        }
    }
}

fn check_tag(metric: &Metric, tag: &str, declared: &Declared) -> Result<(), String> {
    let built_in = metric.built_in_tags();
    let known = match BuiltIn::named(tag) {
        Some(tag) => built_in.contains(&tag),
        None => metric.has_own_tags() && declared.tags.contains(tag),
    };
    if known {
        return Ok(());
    }
    let own = declared.tags.iter().filter(|_| metric.has_own_tags()).map(String::as_str);
    let candidates = built_in.iter().map(|tag| tag.name()).chain(own);
    let hint = if metric.has_own_tags() && BuiltIn::named(tag).is_none() {
        format!("; a tag of the scenario's own is declared with .declare_tag(\"{tag}\")")
    } else {
        String::new()
    };
    Err(format!("`{}` has no tag `{tag}`{}{hint}", metric.name(), nearest(tag, candidates)))
}

/// What a value of a built-in tag can be.
fn check_value(tag: &str, value: &str, scenario: &str) -> Result<(), String> {
    match BuiltIn::named(tag) {
        Some(BuiltIn::Scenario) if value != scenario => {
            Err(format!("it is a threshold of scenario `{scenario}`, which sees no sample of `{value}`"))
        }
        Some(BuiltIn::Status) if !value.parse().is_ok_and(|status: u16| (100..1000).contains(&status)) => {
            Err(format!(
                "`{value}` is no status; write one such as 200 (what had no response has an error_type)"
            ))
        }
        Some(BuiltIn::ExpectedResponse) if !["true", "false"].contains(&value) => {
            Err(format!("`expected_response` is true or false, not `{value}`"))
        }
        _ => Ok(()),
    }
}

/// `tag:value,…`; a value that is not a plain word is in double quotes, in which `\"` and `\\` stand for themselves.
fn parse_tags(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut tags = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (tag, after) = rest
            .split_once(':')
            .ok_or_else(|| format!("`{rest}` is no tag; write tag:value or tag:\"a value\""))?;
        let after = after.trim_start();
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted)
                .ok_or_else(|| format!("the value of tag `{}` has no closing quote", tag.trim()))?
        } else {
            let end = after.find(',').unwrap_or(after.len());
            let value = after[..end].trim();
            if !is_plain_word(value) {
                return Err(format!("quote the value of tag `{}`: {0}:\"{value}\"", tag.trim()));
            }
            (value.to_owned(), &after[end..])
        };
        tags.push((tag.trim().to_owned(), value));
        rest = after.trim_start();
        if let Some(more) = rest.strip_prefix(',') {
            rest = more.trim_start();
        } else if !rest.is_empty() {
            return Err(format!("`{rest}` stands where a comma or the end is due"));
        }
    }
    Ok(tags)
}

fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// As it is read, but for `scenario`, which narrows nothing.
impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.metric.name(), self.selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declared() -> Declared {
        Declared {
            metrics: [("orders".to_owned(), MetricKind::Counter), ("render".to_owned(), MetricKind::Trend)]
                .into(),
            tags: ["tier".to_owned(), "a.b".to_owned()].into(),
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back_as_the_same(
            metric in "http_reqs|http_req_duration|step_duration|iterations|checks|orders|render",
            step in proptest::option::of(".{0,12}"), status in proptest::option::of(100_u16..1000),
            tier in proptest::option::of(".{0,12}"), other in proptest::option::of("[a-z\"\\\\,:{} ]{0,8}"),
        ) {
            let quote = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"");
            let tags = [
                step.map(|value| format!("step:\"{}\"", quote(&value))), status.map(|value| format!("status:{value}")),
                tier.map(|value| format!("tier:\"{}\"", quote(&value))), other.map(|value| format!("a.b: \"{}\"", quote(&value))),
            ];
            let tags: Vec<String> = tags.into_iter().flatten().collect();
            let text = if tags.is_empty() { metric } else { format!("{metric}{{{}}}", tags.join(", ")) };
            if let Ok(selection) = Selection::parse(&text, "s", &declared()) {
                let again = Selection::parse(&selection.to_string(), "s", &declared());
                prop_assert_eq!(again, Ok(selection.clone()), "{}", selection);
            }
        }

        #[test]
        fn any_text_is_a_selection_that_reads_back_or_a_mistake_that_is_quoted(
            pieces in proptest::collection::vec(
                "http_reqs|checks|orders|[{},:]|tier|a\\.b|step|status|[1-9]00|scenario|s|\"[a-z,:}\\\\]{0,3}\"|[^\\p{C}`]", 0..9,
            ),
        ) {
            let text = pieces.concat();
            match Selection::parse(&text, "s", &declared()) {
                Ok(selection) => {
                    let shown = selection.to_string();
                    prop_assert_eq!(Selection::parse(&shown, "s", &declared()), Ok(selection), "{}", shown);
                    // What it is narrowed to was written.
                    prop_assert!(shown.contains('{') <= text.contains('{'), "{}", shown);
                }
                Err(error) => {
                    let plain = |text: &str| text.replace('\\', "");
                    // A threshold on another scenario is told by this one's name first.
                    let quoted: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
                    prop_assert!(
                        quoted.iter().any(|quoted| plain(&text).contains(&plain(quoted))), "{}: {}", text, error
                    );
                }
            }
        }
    }

    #[test]
    fn rows_are_enough_for_a_step_or_a_check_alone() {
        for (text, of_rows) in [
            ("http_reqs", true),
            ("http_reqs{step:x}", true),
            ("http_reqs{step:x,scenario:s}", true),
            ("http_reqs{step:x,status:200}", false),
            ("http_reqs{tier:x}", false),
            ("checks{check:x}", true),
            ("checks{check:x,group:y}", false),
            ("iterations{scenario:s}", true),
            ("iterations{tier:x}", false),
            ("orders", true),
            ("orders{tier:x}", false),
        ] {
            assert_eq!(Selection::parse(text, "s", &declared()).unwrap().is_of_rows(), of_rows, "{text}");
        }
    }
}
