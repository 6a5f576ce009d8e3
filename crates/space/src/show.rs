//! Small pieces of text that every family shows alike.

use pentad_model::Timestamp;
use pentad_model::text::{excerpt, visible};

/// Returns a size for people: bytes below 1 KiB, else one decimal.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!(
        "{}.{} {}",
        tenths / 10,
        tenths % 10,
        UNITS.get(unit).copied().unwrap_or("TiB")
    )
}

/// Returns a time to the second.
pub(crate) fn time(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// Returns the time between two moments as people say it: the two largest units.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.0.saturating_sub(from.0).max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Returns a caller, and on whose behalf it acts.
pub(crate) fn caller(caller: &pentad_model::Caller) -> String {
    match &caller.on_behalf_of {
        Some(other) => format!("{} for {other}", caller.actor),
        None => caller.actor.to_string(),
    }
}

/// Returns a value as JSON on one line of at most `bytes` bytes.
pub(crate) fn json(value: &serde_json::Value, bytes: usize) -> String {
    line(&value.to_string(), bytes)
}

/// Returns `text` on one line of at most `bytes` bytes, hidden characters shown.
pub(crate) fn line(text: &str, bytes: usize) -> String {
    let joined = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    excerpt(&joined, bytes)
}

/// Returns a code span that no content can end early.
pub(crate) fn code(text: &str) -> String {
    let shown = visible(text).replace('\n', "\\n");
    if shown.contains('`') {
        format!("`` {shown} ``")
    } else {
        format!("`{shown}`")
    }
}

/// Returns a fenced block that no content can end early.
pub(crate) fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Returns the line that continues a list.
pub(crate) fn more(address: &str, options: &serde_json::Value) -> String {
    let request = serde_json::json!({"address": address, "options": options});
    format!("\nMore: read {request}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 1 << 20, 5 << 30, u64::MAX / 16]
            .into_iter()
            .map(size)
            .collect();
        insta::assert_snapshot!(shown.join(", "), @"0 B, 1023 B, 1.0 KiB, 1.5 KiB, 1.0 MiB, 5.0 GiB, 1048575.9 TiB");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("a\n````\nb", ""), "`````\na\n````\nb\n`````\n");
        assert_eq!(code("a`b"), "`` a`b ``");
    }
}
