//! `aggregation operator number[unit]`.

use std::fmt;

use super::metric::aggregations;
use crate::model::custom::MetricKind;
use crate::model::duration;
use crate::model::nearest::nearest;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Aggregation {
    Count,
    Rate,
    Value,
    Avg,
    Min,
    Max,
    Percentile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

/// Those of two characters first: one of one character is the beginning of them.
const OPERATORS: [(&str, Operator); 6] = [
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
];

/// What has to hold of a metric's aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Condition {
    pub(super) aggregation: Aggregation,
    operator: Operator,
    /// Milliseconds where the metric is a duration.
    limit: f64,
    /// The limit was written with a unit.
    has_unit: bool,
}

impl Condition {
    /// Reads one for a metric of this name and kind.
    pub(super) fn parse(text: &str, metric: &str, kind: MetricKind) -> Result<Self, String> {
        let at = text
            .find(['<', '>', '=', '!'])
            .ok_or_else(|| format!("`{text}` has no comparison; write it like p(95)<600ms or rate<0.01"))?;
        let (left, rest) = text.split_at(at);
        let Some((symbol, operator)) = OPERATORS.into_iter().find(|(symbol, _)| rest.starts_with(symbol))
        else {
            return Err(format!("`{text}` has no operator that is known; there are >, >=, <, <=, == and !="));
        };
        let aggregation = Aggregation::parse(left.trim(), text)?;
        if !aggregation.fits(kind) {
            return Err(format!(
                "`{}` cannot be taken of `{metric}`; it has {}",
                left.trim(),
                aggregations(kind)
            ));
        }
        let limit = rest[symbol.len()..].trim();
        let number = limit.parse::<f64>().ok().filter(|number| number.is_finite());
        let (limit, has_unit) = match (number, kind) {
            (Some(number), _) => (number, false),
            (None, MetricKind::Trend) => (millis(limit)?, true),
            (None, _) => return Err(format!("`{limit}` is not a number; `{metric}` has no unit")),
        };
        Ok(Self { aggregation, operator, limit, has_unit })
    }

    /// Whether it holds wherever in this range the value lies.
    pub(super) fn holds_within(&self, lowest: f64, highest: f64) -> bool {
        if highest <= lowest {
            return self.holds(lowest);
        }
        match self.operator {
            Operator::Equal => false,
            Operator::NotEqual => self.limit < lowest || self.limit > highest,
            _ => self.holds(lowest) && self.holds(highest),
        }
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Greater => value > self.limit,
            Operator::GreaterOrEqual => value >= self.limit,
            Operator::Less => value < self.limit,
            Operator::LessOrEqual => value <= self.limit,
            Operator::Equal => (value - self.limit).abs() <= f64::EPSILON * value.abs().max(1.0),
            Operator::NotEqual => (value - self.limit).abs() > f64::EPSILON * value.abs().max(1.0),
        }
    }
}

fn millis(text: &str) -> Result<f64, String> {
    Ok(duration::parse(text)?.as_secs_f64() * 1e3)
}

/// As it is read: what is displayed reads back as the same.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symbol = OPERATORS
            .iter()
            .find(|(_, operator)| *operator == self.operator)
            .map_or("", |(symbol, _)| symbol);
        write!(f, "{}{symbol}", self.aggregation)?;
        let unit = self
            .has_unit
            .then(|| std::time::Duration::try_from_secs_f64(self.limit / 1e3))
            .and_then(Result::ok);
        match unit
            .map(duration::format)
            .filter(|text| millis(text).is_ok_and(|back| back.to_bits() == self.limit.to_bits()))
        {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}", self.limit),
        }
    }
}

impl Aggregation {
    fn parse(text: &str, expression: &str) -> Result<Self, String> {
        Ok(match text {
            "count" => Self::Count,
            "rate" => Self::Rate,
            "value" => Self::Value,
            "avg" => Self::Avg,
            "min" => Self::Min,
            "max" => Self::Max,
            "med" => Self::Percentile(50.0),
            _ => {
                let percent = text.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')')).map(str::trim);
                let Some(percent) = percent else {
                    let known = ["count", "rate", "value", "avg", "min", "med", "max", "p(95)"];
                    return Err(format!(
                        "`{expression}` begins with an unknown aggregation `{text}`{}",
                        nearest(text, known)
                    ));
                };
                match percent.parse::<f64>() {
                    Ok(percent) if (0.0..=100.0).contains(&percent) => Self::Percentile(percent),
                    _ => return Err(format!("`p({percent})` is no percentile; N is within 0 to 100")),
                }
            }
        })
    }

    fn fits(self, kind: MetricKind) -> bool {
        match self {
            Self::Count => kind == MetricKind::Counter,
            Self::Rate => matches!(kind, MetricKind::Counter | MetricKind::Rate),
            Self::Value => kind == MetricKind::Gauge,
            Self::Avg | Self::Min | Self::Max | Self::Percentile(_) => kind == MetricKind::Trend,
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("count"),
            Self::Rate => f.write_str("rate"),
            Self::Value => f.write_str("value"),
            Self::Avg => f.write_str("avg"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percent) => write!(f, "p({percent})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = MetricKind> {
        prop_oneof![
            Just(MetricKind::Counter),
            Just(MetricKind::Gauge),
            Just(MetricKind::Rate),
            Just(MetricKind::Trend)
        ]
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back_as_the_same(
            aggregation in "count|rate|value|avg|min|med|max|p\\([0-9]{1,2}(\\.[0-9]{1,3})?\\)",
            space in " {0,2}",
            operator in "<|<=|>|>=|==|!=",
            limit in "-?[0-9]{1,9}(\\.[0-9]{1,9})?(e-?[0-9]{1,2})?|[0-9]{1,6}(\\.[0-9]{1,3})?(us|ms|s|m|h)",
            kind in kinds(),
        ) {
            let text = format!("{aggregation}{space}{operator}{space}{limit}");
            if let Ok(condition) = Condition::parse(&text, "m", kind) {
                let again = Condition::parse(&condition.to_string(), "m", kind);
                // A bare number and one with a unit are the same condition.
                let without_unit = |condition: Condition| Condition { has_unit: false, ..condition };
                prop_assert_eq!(again.map(without_unit), Ok(without_unit(condition)), "{}", condition);
            }
        }

        #[test]
        fn it_holds_as_its_operator_says(
            operator in "<|<=|>|>=|==|!=", limit in -1e9_f64..1e9, away in -1e9_f64..1e9, kind in kinds(),
        ) {
            let aggregation = match kind {
                MetricKind::Counter => "count",
                MetricKind::Gauge => "value",
                MetricKind::Rate => "rate",
                MetricKind::Trend => "p(95)",
            };
            let condition = Condition::parse(&format!("{aggregation} {operator} {limit}"), "m", kind).unwrap();
            for value in [limit, limit + away] {
                let order = value.partial_cmp(&limit).unwrap();
                let fits = match operator.as_str() {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    "==" => order.is_eq(),
                    _ => order.is_ne(),
                };
                prop_assert_eq!(condition.holds(value), fits, "{} of {}", condition, value);
                prop_assert_eq!(condition.holds_within(value, value), fits);
            }
            // Over a range it holds where it holds at every point of it.
            let (lowest, highest) = (limit.min(limit + away), limit.max(limit + away));
            if condition.holds_within(lowest, highest) {
                for part in [0.0, 0.25, 0.5, 1.0] {
                    prop_assert!(condition.holds((lowest + part * (highest - lowest)).min(highest)), "{} in {}", part, condition);
                }
            }
        }

        #[test]
        fn any_text_is_a_condition_that_reads_back_or_a_mistake_that_is_quoted(
            pieces in proptest::collection::vec("count|rate|p\\(9.?\\)|med|[<>=! ]{1,2}|-?[0-9.e]{1,4}|m?s|inf|[^\\p{C}`]", 0..7),
            kind in kinds(),
        ) {
            let text = pieces.concat();
            match Condition::parse(&text, "m", kind) {
                Ok(condition) => {
                    let shown = condition.to_string();
                    prop_assert_eq!(Condition::parse(&shown, "m", kind).map(|it| it.to_string()), Ok(shown));
                }
                Err(error) => {
                    let solid = |text: &str| text.split_whitespace().collect::<String>();
                    let quoted = error.split('`').nth(1).map(solid).unwrap_or_default();
                    prop_assert!(solid(&text).contains(&quoted), "{}", error);
                }
            }
        }
    }

    #[test]
    fn units_stay_where_they_were_written() {
        for (text, want) in [
            ("p(95) < 600ms", "p(95)<600ms"),
            ("med<=1.5s", "p(50)<=1.5s"),
            ("p(99.9)>250us", "p(99.9)>250us"),
            ("avg != 12.5", "avg!=12.5"),
        ] {
            assert_eq!(Condition::parse(text, "m", MetricKind::Trend).unwrap().to_string(), want);
        }
    }
}
