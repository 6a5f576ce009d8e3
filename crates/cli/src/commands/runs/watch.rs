//! Following a tree of runs.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use pentad_keeper::attach::Desk;
use pentad_model::step::Step;
use pentad_model::{Event, EventBody, Outcome, RunId, Status};
use pentad_program::Attendance;
use serde_json::Value;

use crate::args::Globals;
use crate::house::House;
use crate::invoke::block_on;
use crate::render::{Ending, escaped, render};
use crate::terminal::Terminal;

/// The least time between two looks: each is a read, which is journaled.
const PAUSE: Duration = Duration::from_secs(1);
/// The exit code of what was interrupted.
const INTERRUPTED: u8 = 130;
/// Events, and steps, that are read at once.
const PAGE: usize = 200;

/// Follows a tree, or the newest trees.
pub fn watch(globals: &Globals, terminal: &Terminal, root: Option<&str>) -> anyhow::Result<ExitCode> {
    block_on(async {
        let house = House::open(globals).await?;
        let mut watch = Watch {
            house: &house,
            terminal,
            root,
            drawn: 0,
            known: BTreeMap::new(),
        };
        let result = tokio::select! {
            result = watch.follow() => result,
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(INTERRUPTED)),
        };
        house.close().await;
        result
    })?
}

/// How a run was last shown.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    id: String,
    title: String,
    status: Value,
    waits: Value,
    error: Value,
}

impl Shown {
    fn of(node: &Value) -> Self {
        let text = |key: &str| {
            node.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let value = |key: &str| node.get(key).cloned().unwrap_or_default();
        Self {
            id: text("id"),
            title: text("title"),
            status: value("status"),
            waits: value("waits"),
            error: value("error"),
        }
    }

    /// Returns the word of its status, which stands alone or before what is waited for.
    fn word(&self) -> String {
        match &self.status {
            Value::String(word) => word.clone(),
            Value::Object(map) => map.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn line(&self, terminal: &Terminal) -> String {
        if terminal.json {
            let line = serde_json::json!({
                "id": self.id,
                "title": self.title,
                "status": self.word(),
                "waits": self.waits,
                "error": self.error,
            });
            let line = line.to_string();
            return if terminal.out_is_terminal {
                escaped(&line) + "\n"
            } else {
                line + "\n"
            };
        }
        let waits: Vec<&str> = self
            .waits
            .as_array()
            .map(|waits| waits.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let what = if waits.is_empty() {
            String::new()
        } else {
            format!(" for {}", waits.join(" and "))
        };
        let error = self
            .error
            .get("message")
            .and_then(Value::as_str)
            .map_or_else(String::new, |message| format!(": {message}"));
        let line = format!("run:{} {} · {}{what}{error}", self.id, self.title, self.word());
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        terminal.foreign_out(&line) + "\n"
    }
}

/// One tree, or all of them, in front of a person or a pipe.
struct Watch<'a> {
    house: &'a House,
    terminal: &'a Terminal,
    root: Option<&'a str>,
    /// Lines on the screen.
    drawn: usize,
    known: BTreeMap<String, Shown>,
}

impl Watch<'_> {
    async fn follow(&mut self) -> anyhow::Result<ExitCode> {
        let desk = &*self.house.desk;
        loop {
            let position = desk.head().await?;
            let outcome = self.read().await;
            if outcome.status != Status::Ok {
                return Ok(self.terminal.emit(&render(&outcome, self.terminal, Ending::Line)));
            }
            let value = outcome.value.clone().unwrap_or_default();
            let runs = nodes(&value);
            if !self.show(&outcome, &runs) {
                return Ok(ExitCode::SUCCESS);
            }
            if self.root.is_some()
                && let Some(code) = runs.first().and_then(ended)
            {
                return Ok(ExitCode::from(code));
            }
            let ids: HashSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
            let everything = self.root.is_none();
            let concerns = |run: Option<RunId>| {
                everything || run.is_some_and(|run| ids.contains(run.to_string().as_str()))
            };
            if !changed(desk, position, concerns).await? {
                self.terminal
                    .notice("the keeper of this home has ended; watch again to start one");
                return Ok(ExitCode::FAILURE);
            }
            // What happens at once is shown at once.
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read(&self) -> Outcome {
        let ask = super::tree(self.root);
        let invocation = self.house.invocation(ask.verb, ask.arguments);
        self.house.desk.invoke(invocation, Attendance::default()).await
    }

    /// Draws the tree anew, or writes what has changed; tells whether anybody still reads.
    fn show(&mut self, outcome: &Outcome, runs: &[Shown]) -> bool {
        if self.terminal.out_is_terminal && !self.terminal.json {
            let text = self.terminal.foreign_out(&outcome.text);
            let (picture, lines) = picture(&text, self.drawn, window());
            self.drawn = lines;
            return self.terminal.stream(&picture);
        }
        let mut changes = String::new();
        for run in runs {
            if self.known.get(&run.id) != Some(run) {
                changes.push_str(&run.line(self.terminal));
                self.known.insert(run.id.clone(), run.clone());
            }
        }
        changes.is_empty() || self.terminal.stream(&changes)
    }
}

/// Waits until something has happened in one of the runs; false when the journal ends.
async fn changed(
    desk: &dyn Desk,
    position: u64,
    concerns: impl Fn(Option<RunId>) -> bool,
) -> anyhow::Result<bool> {
    let (mut events_after, mut steps_after) = (position, position);
    loop {
        tokio::select! {
            events = desk.follow(events_after, PAGE) => {
                let events = events?;
                let Some(last) = events.last() else { return Ok(false) };
                events_after = last.position;
                if events.iter().any(|event| matters(event) && concerns(event.run)) {
                    return Ok(true);
                }
            }
            steps = desk.follow_steps(steps_after, PAGE) => {
                let steps: Vec<Step> = steps?;
                let Some(last) = steps.last() else { return Ok(false) };
                steps_after = last.journal;
                if steps.iter().any(|step| concerns(Some(step.run))) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Tells whether an event changes what is shown. Looking at runs is an event, too, and must not lead to the next look.
const fn matters(event: &Event) -> bool {
    matches!(
        event.body,
        EventBody::RunStarted { .. } | EventBody::RunStatus { .. } | EventBody::Approval { .. }
    )
}

/// Returns the runs of a tree, or of several, from the top down.
fn nodes(value: &Value) -> Vec<Shown> {
    fn add(node: &Value, all: &mut Vec<Shown>) {
        all.push(Shown::of(node));
        for child in node
            .get("children")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            add(child, all);
        }
    }
    let mut all = Vec::new();
    match value.get("trees").and_then(Value::as_array) {
        Some(trees) => trees.iter().for_each(|tree| add(tree, &mut all)),
        None => add(value, &mut all),
    }
    all
}

/// Returns the exit code of a run that has ended.
fn ended(run: &Shown) -> Option<u8> {
    match run.word().as_str() {
        "succeeded" => Some(0),
        "failed" | "canceled" | "lost" => Some(1),
        _ => None,
    }
}

/// Returns the size of the terminal, lines and columns.
fn window() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 1 && size.ws_col > 1 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

/// Returns what replaces the last picture, and its number of lines. What does not fit is left out: a line that wraps or
/// scrolls away could not be taken back.
fn picture(text: &str, drawn: usize, (rows, columns): (usize, usize)) -> (String, usize) {
    let lines: Vec<String> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.chars().take(columns.saturating_sub(1)).collect())
        .collect();
    let room = rows.saturating_sub(1).max(1);
    let mut out = if drawn == 0 {
        String::new()
    } else {
        format!("\u{1b}[{drawn}A\u{1b}[J")
    };
    let fits = lines.len() <= room;
    let shown = if fits { lines.len() } else { room.saturating_sub(1) };
    for line in lines.iter().take(shown) {
        out.push_str(line);
        out.push('\n');
    }
    if !fits {
        out.push_str(&format!("… {} more lines\n", lines.len() - shown));
    }
    (out, if fits { shown } else { shown + 1 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_replaces_the_last_one_and_never_scrolls() {
        let (first, drawn) = picture("# Tree\n\n- a\n  - b\n", 0, (24, 80));
        assert_eq!((first.as_str(), drawn), ("# Tree\n- a\n  - b\n", 3));
        let (next, drawn) = picture("# Tree\n\n- abcdefgh\n", 3, (24, 6));
        assert_eq!((next.as_str(), drawn), ("\u{1b}[3A\u{1b}[J# Tre\n- abc\n", 2));
        let long = (0..30).map(|n| format!("line {n}\n")).collect::<String>();
        let (cut, drawn) = picture(&long, 0, (5, 80));
        assert_eq!(
            (cut.as_str(), drawn),
            ("line 0\nline 1\nline 2\n… 27 more lines\n", 4)
        );
    }

    #[test]
    fn changes_of_runs_are_lines() {
        let value = json!({
            "id": "a", "title": "Review\u{202e}", "status": {"waiting": "event"}, "waits": ["the event 'x'", "run:b"],
            "children": [{"id": "b", "title": "Build", "status": "failed", "error": {"message": "exit\n1", "code": "exit"}}],
        });
        let runs = nodes(&value);
        let shown = |json: bool| -> String {
            let terminal = Terminal {
                json,
                out_is_terminal: true,
                ..Terminal::default()
            };
            runs.iter().map(|run| run.line(&terminal)).collect()
        };
        insta::assert_snapshot!(shown(false) + &shown(true));
        assert_eq!(runs.first().and_then(ended), None);
        assert_eq!(runs.last().and_then(ended), Some(1));
        assert_eq!(nodes(&json!({"trees": [value, value]})).len(), 4);
    }
}
