//! Foreign text (names from code, servers and spans) made fit to stand in one line of a terminal.

/// `text` without control characters, escape sequences (CSI, OSC, DCS and their kin, also in their C1 forms) and
/// marks that reorder or hide text. White space of any kind becomes a space, so the result is one line.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => skip_csi(&mut chars),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut chars),
                // Intermediates, then one final character.
                Some(' '..='/') => while matches!(chars.next(), Some(' '..='/')) {},
                _ => {}
            },
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            c if c.is_whitespace() => out.push(' '),
            c if c.is_control() || is_invisible(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Parameters and intermediates up to a final byte of `@` to `~`; anything else is no part of the sequence.
fn skip_csi(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

/// A control string, up to its terminator: BEL, ST, or the end of the text, as a terminal would read it.
fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// Bidirectional overrides and isolates, zero-width characters, and the tag characters.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_and_text_stays() {
        for (text, want) in [
            ("GET /users/{id}", "GET /users/{id}"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}2Jcleared", "cleared"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pdcs\u{9c}x", "x"),
            ("\u{1b}(Bx", "x"),
            ("a\r\nb\tc\u{85}d\u{2028}e", "a  b c d e"),
            ("\u{202e}gpj.exe\u{0}\u{8}", "gpj.exe"),
            ("naïve 漢字 ✓", "naïve 漢字 ✓"),
            ("\u{1b}[31", ""),
            ("\u{1b}", ""),
            ("\u{1b}]unterminated", ""),
        ] {
            assert_eq!(plain(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in "(\\PC|\\x1b|[\\x00-\\x1f\u{80}-\u{9f}\\[\\];m0-9])*") {
            let got = plain(&text);
            prop_assert!(!got.chars().any(char::is_control), "{:?}", got);
            prop_assert_eq!(&plain(&got), &got);
        }
    }
}
