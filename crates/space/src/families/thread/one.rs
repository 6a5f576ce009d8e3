//! Reading one thread, page by page, from either end.

use pentad_model::event::Event;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::{IdEnding, ThreadId};
use pentad_program::{EventRange, Store};
use serde_json::{Map, Value, json};

use crate::families::events::{self, Detail};
use crate::show;
use crate::trouble::from_store;

const DEFAULT_LIMIT: usize = 50;
const SCAN_PAGE: usize = 200;

/// Which way a page goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Oldest first, after a number.
    Up(u64),
    /// Newest first, before a number; shown in ascending order.
    Down(Option<u64>),
}

impl Direction {
    fn parse(options: &Options) -> Result<Self, Refusal> {
        let number = |key: &str| {
            options
                .text(key)
                .map(|text| {
                    text.trim().parse::<u64>().map_err(|_| {
                        let message =
                            format!("{key} takes the number of an event, as it stands in brackets.");
                        Refusal::new(RefusalKind::BadRequest, key, message)
                    })
                })
                .transpose()
        };
        match (number("after")?, number("before")?) {
            (Some(_), Some(_)) => Err(Refusal::new(
                RefusalKind::BadRequest,
                "before",
                "A page goes either after or before an event, not both.",
            )),
            (Some(after), None) => Ok(Self::Up(after)),
            (None, before) => Ok(Self::Down(before)),
        }
    }

    const fn range(self) -> EventRange {
        match self {
            Self::Up(after) => EventRange::After(after),
            Self::Down(before) => EventRange::Before(before),
        }
    }
}

/// A page of events and where it goes on.
struct Page {
    events: Vec<Event>,
    next: Option<Direction>,
    scanned: usize,
}

pub(super) async fn read(
    store: &dyn Store,
    ending: &IdEnding,
    options: &Options,
    scan: usize,
) -> Result<Product, Refusal> {
    let subject = format!("thread:{ending}");
    let direction = Direction::parse(options)?;
    let thread = store
        .find_thread(ending)
        .await
        .map_err(|error| from_store(&subject, &error).next_step("read thread: lists the threads"))?;
    let limit = options.limit(DEFAULT_LIMIT);
    let detail = match options.text("tools") {
        Some("full") => Detail::Full,
        _ => Detail::Names,
    };
    let words: Vec<String> = options
        .text("query")
        .map(|query| query.split_whitespace().map(str::to_lowercase).collect())
        .unwrap_or_default();
    let page = if words.is_empty() {
        plain(store, thread.id, direction, limit).await
    } else {
        filtered(store, thread.id, direction, limit, scan, &words).await
    }
    .map_err(|error| from_store(&subject, &error))?;

    let address = format!("thread:{}", thread.id);
    let title = thread
        .title
        .as_ref()
        .map_or_else(|| "untitled".to_owned(), |title| show::line(title, 200));
    let mut text = format!(
        "# {title}\n\n{address} · agent {}, opened by {} on {}, {} events\n\n",
        thread.agent,
        thread.opened_by,
        show::time(thread.created_at),
        thread.events
    );
    for event in &page.events {
        text.push_str(&events::markdown(event, detail));
    }
    if page.events.is_empty() {
        text.push_str(&nothing(&words, page.scanned));
    }
    let mut value = json!({
        "thread": thread,
        "events": page.events.iter().map(events::value).collect::<Vec<_>>(),
        "more": page.next.is_some(),
    });
    if let Some(next) = page.next {
        let again = again(options, limit, next);
        text.push_str(&show::more(&address, &again));
        if let Some(map) = value.as_object_mut() {
            map.insert("next".to_owned(), again);
        }
    }
    Ok(Product::text(text, address).value(value))
}

fn nothing(words: &[String], scanned: usize) -> String {
    if words.is_empty() {
        "No events here.\n".to_owned()
    } else {
        format!("None of {scanned} events has all of these words.\n")
    }
}

/// Returns the options that continue.
fn again(options: &Options, limit: usize, next: Direction) -> Value {
    let mut again = Map::new();
    for key in ["query", "tools"] {
        if let Some(given) = options.text(key) {
            again.insert(key.to_owned(), json!(given));
        }
    }
    again.insert("limit".to_owned(), json!(limit));
    let (key, number) = match next {
        Direction::Up(after) => ("after", Some(after)),
        Direction::Down(before) => ("before", before),
    };
    again.insert(key.to_owned(), json!(number.unwrap_or(0).to_string()));
    Value::Object(again)
}

async fn plain(
    store: &dyn Store,
    thread: ThreadId,
    direction: Direction,
    limit: usize,
) -> Result<Page, pentad_program::StoreError> {
    let page = store.events(thread, direction.range(), limit).await?;
    let next = if page.more {
        onward(direction, &page.events)
    } else {
        None
    };
    Ok(Page {
        scanned: page.events.len(),
        events: page.events,
        next,
    })
}

/// Returns where a page after these events begins.
fn onward(direction: Direction, events: &[Event]) -> Option<Direction> {
    match direction {
        Direction::Up(_) => events.last().map(|event| Direction::Up(event.seq)),
        Direction::Down(_) => events.first().map(|event| Direction::Down(Some(event.seq))),
    }
}

async fn filtered(
    store: &dyn Store,
    thread: ThreadId,
    direction: Direction,
    limit: usize,
    scan: usize,
    words: &[String],
) -> Result<Page, pentad_program::StoreError> {
    let mut found: Vec<Event> = Vec::new();
    let mut scanned = 0;
    let mut at = Some(direction);
    while let Some(from) = at
        && found.len() < limit
        && scanned < scan
    {
        let page = store
            .events(thread, from.range(), SCAN_PAGE.min(scan - scanned))
            .await?;
        at = if page.more {
            onward(from, &page.events)
        } else {
            None
        };
        let ordered: Vec<Event> = match direction {
            Direction::Up(_) => page.events,
            Direction::Down(_) => page.events.into_iter().rev().collect(),
        };
        let pages_end = ordered.len();
        for (index, event) in ordered.into_iter().enumerate() {
            scanned += 1;
            if !has_all(&event, words) {
                continue;
            }
            let seq = event.seq;
            found.push(event);
            if found.len() == limit {
                if index + 1 < pages_end || at.is_some() {
                    at = Some(match direction {
                        Direction::Up(_) => Direction::Up(seq),
                        Direction::Down(_) => Direction::Down(Some(seq)),
                    });
                }
                break;
            }
        }
    }
    if matches!(direction, Direction::Down(_)) {
        found.reverse();
    }
    Ok(Page {
        events: found,
        next: at,
        scanned,
    })
}

fn has_all(event: &Event, words: &[String]) -> bool {
    let text = serde_json::to_string(&event.body)
        .unwrap_or_default()
        .to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}
