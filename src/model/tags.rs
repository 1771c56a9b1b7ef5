//! Tags of samples: the built-in ones and the author's own, and the selectors that pick samples by them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::flow::FLOW_TAG;

/// A tag that every sample of a family has without anybody setting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuiltIn {
    Scenario,
    Step,
    Group,
    Method,
    Status,
    ExpectedResponse,
    ErrorType,
    Check,
}

impl BuiltIn {
    pub(crate) const ALL: [(&str, Self); 8] = [
        ("scenario", Self::Scenario),
        ("step", Self::Step),
        ("group", Self::Group),
        ("method", Self::Method),
        ("status", Self::Status),
        ("expected_response", Self::ExpectedResponse),
        ("error_type", Self::ErrorType),
        ("check", Self::Check),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, tag)| *tag)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, tag)| *tag == self).map_or("", |(name, _)| name)
    }
}

/// Whether an author may set a tag of this name; if not, why.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if BuiltIn::named(name).is_some() || name == FLOW_TAG {
        return Err(format!("the tag `{name}` is set by the tool itself; choose another name"));
    }
    let fits = |(at, byte): (usize, u8)| {
        byte == b'_'
            || byte.is_ascii_alphabetic()
            || at > 0 && (byte.is_ascii_digit() || b".-".contains(&byte))
    };
    if name.is_empty() || !name.bytes().enumerate().all(fits) {
        return Err(format!(
            "`{name}` is no name of a tag; use letters, digits, `_`, `.` and `-`, beginning with a letter or `_`"
        ));
    }
    Ok(())
}

/// The author's own tags, each once; one that is set again has the new value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Tags(Vec<(String, String)>);

impl Tags {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, own)) => *own = value.into(),
            None => self.0.push((name.to_owned(), value.into())),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These, with `inner` over them.
    pub(crate) fn with(&self, inner: &Self) -> Self {
        let mut all = self.clone();
        inner.iter().for_each(|(name, value)| all.set(name, value));
        all
    }
}

/// What a sample is asked for by a selector.
pub(crate) trait Tagged {
    /// The value of a built-in tag; `None` where the sample has none.
    fn built_in(&self, tag: BuiltIn) -> Option<std::borrow::Cow<'_, str>>;
    /// The value of a tag of the author's.
    fn own(&self, name: &str) -> Option<&str>;
}

/// Samples that have all of these tags, with these values.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selector {
    built_in: Vec<(BuiltIn, String)>,
    own: Tags,
}

impl Selector {
    /// From tags of different names, each of which is known to make sense.
    pub(crate) fn new(tags: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut selector = Self::default();
        for (name, value) in tags {
            match BuiltIn::named(&name) {
                Some(tag) => selector.built_in.push((tag, value)),
                None => selector.own.set(&name, value),
            }
        }
        selector.built_in.sort();
        selector.own.0.sort();
        selector
    }

    /// The value that is asked for.
    pub(crate) fn value(&self, tag: BuiltIn) -> Option<&str> {
        self.built_in.iter().find(|(own, _)| *own == tag).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.built_in.is_empty() && self.own.is_empty()
    }

    /// Whether nothing but `tag` is asked for, or nothing at all.
    pub(crate) fn is_at_most(&self, tag: BuiltIn) -> bool {
        self.own.is_empty() && self.built_in.iter().all(|(own, _)| *own == tag)
    }

    pub(crate) fn matches(&self, sample: &impl Tagged) -> bool {
        self.matches_apart_from(None, sample)
    }

    /// Whether the sample would match if nobody asked for `apart`.
    pub(crate) fn matches_apart_from(&self, apart: Option<BuiltIn>, sample: &impl Tagged) -> bool {
        let built_in = |(tag, value): &(BuiltIn, String)| {
            Some(*tag) == apart || sample.built_in(*tag).as_deref() == Some(value.as_str())
        };
        self.built_in.iter().all(built_in)
            && self.own.iter().all(|(name, value)| sample.own(name) == Some(value))
    }
}

/// `{step:"GET /",tier:gold}`; nothing without tags. What is no plain word is quoted.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let built_in = self.built_in.iter().map(|(tag, value)| (tag.name(), value.as_str()));
        for (at, (name, value)) in built_in.chain(self.own.iter()).enumerate() {
            f.write_str(if at == 0 { "{" } else { "," })?;
            if is_plain_word(value) {
                write!(f, "{name}:{value}")?;
            } else {
                write!(f, "{name}:\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""))?;
            }
        }
        f.write_str("}")
    }
}

/// Whether a value needs no quotes in a threshold.
pub(crate) fn is_plain_word(value: &str) -> bool {
    !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "{},\":".contains(c))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    struct Sample {
        status: &'static str,
        own: Tags,
    }

    impl Tagged for Sample {
        fn built_in(&self, tag: BuiltIn) -> Option<Cow<'_, str>> {
            (tag == BuiltIn::Status).then_some(Cow::Borrowed(self.status))
        }

        fn own(&self, name: &str) -> Option<&str> {
            self.own.get(name)
        }
    }

    fn selector(tags: &[(&str, &str)]) -> Selector {
        Selector::new(tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn a_sample_matches_only_with_every_tag() {
        let mut own = Tags::default();
        own.set("tier", "silver");
        own.set("tier", "gold");
        let sample = Sample { status: "200", own };
        for (tags, fits) in [
            (&[][..], true),
            (&[("status", "200")], true),
            (&[("status", "201")], false),
            (&[("tier", "gold")], true),
            (&[("tier", "silver")], false),
            (&[("status", "200"), ("tier", "gold")], true),
            (&[("status", "201"), ("tier", "gold")], false),
            (&[("step", "GET /")], false),
            (&[("other", "gold")], false),
        ] {
            assert_eq!(selector(tags).matches(&sample), fits, "{tags:?}");
        }
        assert!(selector(&[("status", "201")]).matches_apart_from(Some(BuiltIn::Status), &sample));
    }

    #[test]
    fn names_that_the_tool_sets_or_that_nobody_could_write_are_refused() {
        for name in ["tier", "_a", "a.b-c_1"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, word) in [
            ("status", "set by the tool"),
            ("", "no name"),
            ("1a", "no name"),
            ("a b", "no name"),
            ("ü", "no name"),
        ] {
            assert!(check_name(name).unwrap_err().contains(word), "{name}");
        }
    }

    #[test]
    fn inner_tags_stand_over_outer_ones() {
        let (mut outer, mut inner) = (Tags::default(), Tags::default());
        outer.set("a", "1");
        outer.set("b", "1");
        inner.set("b", "2");
        let all = outer.with(&inner);
        assert_eq!(all.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
    }
}
