//! Names that somebody may have meant.

use pentad_model::text::prefix;
use pentad_model::tool::ToolRef;
use strsim::damerau_levenshtein;

/// Most suggestions.
const MAX_NEAREST: usize = 5;
/// What is looked at of a given name; longer ones are no typing errors.
const MAX_BYTES: usize = 160;
/// The least likeness, of 1, that is worth suggesting.
const LEAST: f64 = 0.6;

/// Returns at most five of `known` that look like `name`, best first, equal ones in byte order.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a ToolRef>) -> Vec<ToolRef> {
    let wanted = Shape::of(prefix(name, MAX_BYTES));
    if wanted.key.is_empty() {
        return Vec::new();
    }
    let qualified = name
        .split_once('/')
        .map(|(source, rest)| (source, Shape::of(prefix(rest, MAX_BYTES))));
    let mut scored: Vec<(f64, &ToolRef)> = known
        .filter_map(|tool| {
            let score = likeness(&wanted, qualified.as_ref(), tool);
            (score >= LEAST).then_some((score, tool))
        })
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then_with(|| left.cmp(right)));
    scored
        .into_iter()
        .take(MAX_NEAREST)
        .map(|(_, tool)| tool.clone())
        .collect()
}

fn likeness(wanted: &Shape, qualified: Option<&(&str, Shape)>, tool: &ToolRef) -> f64 {
    let name = Shape::of(&tool.name);
    match qualified {
        // A right source must not make up for a wrong name: only the names are compared then.
        Some((source, rest)) if *source == tool.source => rest.likeness(&name),
        Some((_, rest)) => {
            let elsewhere = rest.likeness(&name) * 0.95;
            elsewhere
                .max(wanted.likeness(&Shape::of(&tool.to_string())))
                .max(wanted.likeness(&name))
        }
        None => {
            let last = tool
                .name
                .rsplit_once('/')
                .map_or(0.0, |(_, last)| wanted.likeness(&Shape::of(last)));
            wanted.likeness(&name).max(last)
        }
    }
}

/// A name reduced to what typing errors leave: letters and digits in lower case, and its words.
struct Shape {
    key: String,
    letters: [u8; 37],
    chars: usize,
    words: Vec<String>,
}

impl Shape {
    fn of(text: &str) -> Self {
        let words = crate::search::words(text);
        let key: String = words.concat();
        let mut letters = [0_u8; 37];
        for c in key.chars() {
            let place = match c {
                'a'..='z' => usize::from(c as u8 - b'a'),
                '0'..='9' => 26 + usize::from(c as u8 - b'0'),
                _ => 36,
            };
            if let Some(count) = letters.get_mut(place) {
                *count = count.saturating_add(1);
            }
        }
        Self {
            chars: key.chars().count(),
            key,
            letters,
            words,
        }
    }

    fn likeness(&self, other: &Self) -> f64 {
        let longest = self.chars.max(other.chars);
        if longest == 0 {
            return 0.0;
        }
        if self.key == other.key {
            return 1.0;
        }
        self.by_distance(other, longest)
            .max(self.by_words(other))
            .max(self.by_part(other, longest))
    }

    /// One minus the share of letters that differ; zero without counting where it must be below [`LEAST`].
    #[allow(clippy::cast_precision_loss)]
    fn by_distance(&self, other: &Self, longest: usize) -> f64 {
        let allowed = longest * 2 / 5;
        let differing: usize = self
            .letters
            .iter()
            .zip(&other.letters)
            .map(|(a, b)| usize::from(a.abs_diff(*b)))
            .sum();
        if self.chars.abs_diff(other.chars) > allowed || differing > 2 * allowed {
            return 0.0;
        }
        1.0 - damerau_levenshtein(&self.key, &other.key) as f64 / longest as f64
    }

    #[allow(clippy::cast_precision_loss)]
    fn by_words(&self, other: &Self) -> f64 {
        let shared = self.words.iter().filter(|w| other.words.contains(w)).count();
        let all = self.words.len() + other.words.len() - shared.min(other.words.len());
        if shared == 0 || all == 0 {
            return 0.0;
        }
        0.95 * shared as f64 / all as f64
    }

    #[allow(clippy::cast_precision_loss)]
    fn by_part(&self, other: &Self, longest: usize) -> f64 {
        let shortest = self.chars.min(other.chars);
        if shortest >= 4 && (self.key.contains(&other.key) || other.key.contains(&self.key)) {
            LEAST + 0.3 * shortest as f64 / longest as f64
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &str, known: &[&str]) -> Vec<String> {
        let refs: Vec<ToolRef> = known
            .iter()
            .map(|full| {
                let (source, name) = full.split_once('/').unwrap();
                ToolRef::new(source, name)
            })
            .collect();
        nearest(wanted, refs.iter())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn typing_errors_word_order_and_parts_are_found() {
        let known = [
            "github/create_issue",
            "github/list_issues",
            "gitlab/create_issue",
            "library/media/transcribe",
            "slack/post_message",
        ];
        assert_eq!(
            names("github/creat_isue", &known),
            ["github/create_issue", "gitlab/create_issue"]
        );
        assert_eq!(
            names("issue_create", &known),
            ["github/create_issue", "gitlab/create_issue"]
        );
        assert_eq!(names("transcirbe", &known), ["library/media/transcribe"]);
        assert_eq!(names("SlackPostMessage", &known), ["slack/post_message"]);
        assert!(names("weather", &known).is_empty());
        assert!(names("", &known).is_empty());
        assert!(names(&"x".repeat(100_000), &known).is_empty());
    }
}
