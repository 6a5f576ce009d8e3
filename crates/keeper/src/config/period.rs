//! Lengths of time as people write them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Longest length of time that configuration may state: thirty days.
const MAX_SECONDS: f64 = 30.0 * 86_400.0;

/// A length of time: `30` (seconds), `"30s"`, `"5m"`, `"2h"`, `"250ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

impl Period {
    /// Returns a length of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    fn of(seconds: f64) -> Result<Self, String> {
        if (0.001..=MAX_SECONDS).contains(&seconds) {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err("expected a time between 1 ms and 30 days".to_owned())
        }
    }

    /// Parses a text such as `5m`.
    ///
    /// # Errors
    /// Says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no length of time: expected 30, \"30s\", \"5m\", \"2h\" or \"250ms\"");
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let factor = match unit.trim() {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        Self::of(number * factor)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            m if m % 1000 != 0 => write!(f, "{m}ms"),
            m if m % 60_000 == 0 => write!(f, "{}m", m / 60_000),
            m => write!(f, "{}s", m / 1000),
        }
    }
}

struct PeriodVisitor;

impl de::Visitor<'_> for PeriodVisitor {
    type Value = Period;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds as a number, or a text such as \"30s\" or \"5m\"")
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Period, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Period, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Period, E> {
        Period::of(seconds).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
        Period::parse(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PeriodVisitor)
    }
}
