//! What somebody may have meant who wrote a name that is not known.

/// `; did you mean …?` with the candidate at the smallest edit distance.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let best = candidates.iter().map(|candidate| (distance(word, candidate), candidate)).min();
    match best {
        Some((distance, candidate)) if distance <= word.chars().count().max(4) / 2 => {
            format!("; did you mean `{candidate}`?")
        }
        _ => format!("; there are {}", candidates.join(", ")),
    }
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_offered_and_all_where_none_is_close() {
        let known = ["iterations", "http_reqs", "checks"];
        assert_eq!(nearest("iteration", known), "; did you mean `iterations`?");
        assert_eq!(nearest("nonsense", known), "; there are iterations, http_reqs, checks");
    }
}
