//! `.env` files: lines of `NAME=VALUE`, read as shells and other tools read them, without setting any variable.
//!
//! - `export` may stand before the name. Empty lines, and what follows a `#` that begins a word, are left out.
//! - `'…'` is taken as it is; in `"…"`, `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are escapes. Both may go over several lines.
//! - `$NAME`, `${NAME}` and `${NAME:-default}`, outside of `'…'`, are filled in from the environment or from a line above; what
//!   is nowhere is empty.
//! - Of two lines with one name the last counts.

use std::collections::BTreeMap;

/// One line.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.name)
    }
}

/// Reads a whole file. The error has the line, and repeats nothing of it: it may be a secret.
pub(super) fn parse(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Entry>, (usize, String)> {
    let mut reader = Reader {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
        environment,
        entries: Vec::new(),
    };
    while reader.skip_to_name() {
        let line = reader.line;
        let (name, value) = reader.entry().map_err(|why| (line, why.to_owned()))?;
        reader.entries.push(Entry { name, value, line });
    }
    Ok(reader.entries)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    environment: &'a BTreeMap<String, String>,
    entries: Vec<Entry>,
}

impl<'a> Reader<'a> {
    /// Skips empty lines and comments; whether anything is left.
    fn skip_to_name(&mut self) -> bool {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with('#') {
                return !self.rest.is_empty();
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn entry(&mut self) -> Result<(String, String), &'static str> {
        let blank = |c: char| c == ' ' || c == '\t';
        if let Some(rest) = self.rest.strip_prefix("export")
            && rest.starts_with(blank)
        {
            self.rest = rest.trim_start_matches(blank);
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-');
        self.take_while(blank);
        let value = self.rest.strip_prefix('=').filter(|_| !name.is_empty());
        self.rest = value.ok_or("not of the form NAME=VALUE")?;
        self.take_while(blank);
        let value = match self.rest.chars().next() {
            Some('\'') => self.literal()?,
            Some('"') => self.quoted()?,
            _ => return Ok((name.to_owned(), self.unquoted()?)),
        };
        self.take_while(blank);
        if self.rest.starts_with('#') {
            self.take_while(|c| c != '\n');
        }
        match self.rest.chars().next() {
            None | Some('\n' | '\r') => Ok((name.to_owned(), value)),
            Some(_) => Err("something follows the closing quote"),
        }
    }

    fn literal(&mut self) -> Result<String, &'static str> {
        self.rest = &self.rest[1..];
        let value = self.take_while(|c| c != '\'');
        self.rest = self.rest.strip_prefix('\'').ok_or("a quote is not closed")?;
        Ok(value.to_owned())
    }

    fn quoted(&mut self) -> Result<String, &'static str> {
        self.rest = &self.rest[1..];
        let mut value = String::new();
        loop {
            value.push_str(self.take_while(|c| !matches!(c, '"' | '\\' | '$')));
            let mut after = self.rest.chars();
            match after.next() {
                None => return Err("a quote is not closed"),
                Some('"') => {
                    self.rest = after.as_str();
                    return Ok(value);
                }
                Some('\\') => {
                    value.push(match after.next() {
                        Some('n') => '\n',
                        Some('r') => '\r',
                        Some('t') => '\t',
                        Some(c @ ('"' | '\\' | '$')) => c,
                        _ => {
                            return Err(r#"in "…" only \n, \r, \t, \", \\ and \$ are escapes; '…' has none"#);
                        }
                    });
                    self.rest = after.as_str();
                }
                Some(_) => value.push_str(&self.filled_in()?),
            }
        }
    }

    fn unquoted(&mut self) -> Result<String, &'static str> {
        let mut value = String::new();
        // Blanks at the end are no part of it, unless they were filled in.
        let mut filled = 0;
        loop {
            value.push_str(self.take_while(|c| !matches!(c, '\n' | '$' | '#')));
            match self.rest.chars().next() {
                Some('$') => {
                    value.push_str(&self.filled_in()?);
                    filled = value.len();
                }
                // In the middle of a word it is part of it.
                Some('#') if !value.is_empty() && !value.ends_with([' ', '\t']) => {
                    value.push('#');
                    self.rest = &self.rest[1..];
                }
                _ => break,
            }
        }
        self.take_while(|c| c != '\n');
        value.truncate(value.trim_end().len().max(filled));
        Ok(value)
    }

    /// What `$NAME` or `${NAME}` stands for; a `$` that begins neither is itself.
    fn filled_in(&mut self) -> Result<String, &'static str> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.rest = &self.rest[1..];
        let Some(inner) = self.rest.strip_prefix('{') else {
            let is_reference = self.rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            return Ok(if is_reference {
                self.value_of(|reader| reader.take_while(is_name), "")
            } else {
                "$".to_owned()
            });
        };
        let unknown = "only ${NAME} and ${NAME:-default} are filled in; a plain $ stands in '…'";
        let (reference, rest) = inner.split_once('}').ok_or("a `${` is not closed")?;
        let (name, default) = reference.split_once(":-").unwrap_or((reference, ""));
        if name.is_empty() || !name.chars().all(is_name) || default.contains('\n') {
            return Err(unknown);
        }
        self.rest = rest;
        Ok(self.value_of(|_| name, default))
    }

    fn value_of(&mut self, name: impl FnOnce(&mut Self) -> &'a str, default: &str) -> String {
        let name = name(self);
        let above = || self.entries.iter().rev().find(|entry| entry.name == name).map(|entry| &entry.value);
        let value = self.environment.get(name).or_else(above).filter(|value| !value.is_empty());
        value.map_or(default, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn environment() -> BTreeMap<String, String> {
        BTreeMap::from([("HOME".to_owned(), "/my/home".to_owned())])
    }

    fn values(text: &str) -> Vec<(String, String, usize)> {
        let entries = parse(text, &environment()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        entries.into_iter().map(|entry| (entry.name, entry.value, entry.line)).collect()
    }

    #[test]
    fn a_value_is_read_as_a_shell_reads_it() {
        for (line, value) in [
            ("A=b", "b"),
            ("export A = b ", "b"),
            ("A=", ""),
            ("A= # nothing", ""),
            ("A=b c # d", "b c"),
            ("A=b#c", "b#c"),
            ("A=http://h/?q=1#top", "http://h/?q=1#top"),
            (r#"A='b "c" $HOME \n'"#, r#"b "c" $HOME \n"#),
            (r#"A="b 'c' \"\\\$\n" # d"#, "b 'c' \"\\$\n"),
            ("A=\"b\nc\"", "b\nc"),
            ("A=$HOME/x", "/my/home/x"),
            ("A=\"${HOME}\"s", "?"),
            ("A=x${HOME}y", "x/my/homey"),
            ("A=${NOWHERE}", ""),
            ("A=${NOWHERE:-5}", "5"),
            ("A=${HOME:-5}", "/my/home"),
            ("A=pa$$5", "pa$$5"),
            ("A=b\r", "b"),
            ("\u{feff}A=b", "b"),
        ] {
            if value == "?" {
                assert_eq!(parse(line, &environment()).unwrap_err().1, "something follows the closing quote");
            } else {
                assert_eq!(values(line), [("A".to_owned(), value.to_owned(), 1)], "{line}");
            }
        }
    }

    #[test]
    fn lines_are_counted_and_later_ones_see_the_ones_above() {
        let text = "# a\r\n\nHOST=h # b\nURL=\"http://${HOST}\n/x\"\n  PORT='1\n'\nHOST=i\nALL=$HOST$PORT";
        let want = [
            ("HOST", "h", 3),
            ("URL", "http://h\n/x", 4),
            ("PORT", "1\n", 6),
            ("HOST", "i", 8),
            ("ALL", "i1\n", 9),
        ];
        assert_eq!(values(text), want.map(|(name, value, line)| (name.to_owned(), value.to_owned(), line)));
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_without_what_stands_in_it() {
        for (text, line, message) in [
            ("A=1\nhunter2", 2, "not of the form NAME=VALUE"),
            ("=hunter2", 1, "not of the form"),
            ("A b=hunter2", 1, "not of the form"),
            ("\nA='hunter2\n\n", 2, "a quote is not closed"),
            ("A=\"hunter2", 1, "a quote is not closed"),
            ("A='hunter2'x", 1, "something follows"),
            (r#"A="hunter2\d""#, 1, "are escapes"),
            ("A=${hunter2", 1, "is not closed"),
            ("A=${hunter2?x}", 1, "only ${NAME} and"),
        ] {
            let (at, why) = parse(text, &environment()).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(why.contains(message) && !why.contains("hunter2"), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_value_can_be_written_in_quotes(value in "[^\u{0}]*") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
            let text = format!("A=\"{escaped}\"\nB=2");
            let read = values(&text);
            prop_assert_eq!(read.len(), 2);
            prop_assert_eq!(&read[0].1, &value);
        }

        #[test]
        fn any_text_is_entries_that_can_be_written_again_or_a_mistake_in_one_of_its_lines(
            text in "([A-Z]{1,2}=[A-Z\"'${}# \u{e4}-]{0,6}\n|[A-Z=\"'${}#\\\\ \n\u{e4}-]{0,4}){0,8}",
        ) {
            let lines: Vec<&str> = text.split('\n').collect();
            let of = |entry: &Entry| (entry.name.clone(), entry.value.clone());
            match parse(&text, &environment()) {
                Ok(entries) => {
                    for entry in &entries {
                        prop_assert!(lines[entry.line - 1].contains(&entry.name), "{:?}", entry);
                    }
                    let quote = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
                    let again: Vec<String> =
                        entries.iter().map(|entry| format!("{}=\"{}\"", entry.name, quote(&entry.value))).collect();
                    let again = parse(&again.join("\n"), &environment()).unwrap();
                    prop_assert!(again.iter().map(of).eq(entries.iter().map(of)));
                }
                Err((line, _)) => {
                    // What stands above the mistake has none.
                    prop_assert!((1..=lines.len()).contains(&line));
                    prop_assert!(parse(&lines[..line - 1].join("\n"), &environment()).is_ok());
                }
            }
        }
    }
}
