//! Asking for words.

use pentad_model::text;
use pentad_program::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use crate::codec;
use crate::fault::Fault;
use crate::search::index::{place_of, words_row};
use crate::search::{snippet, words};

/// Most words of one search.
const MAX_WORDS: usize = 32;

/// The words that must all occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Splits a query at white space; pieces without any letter or digit say nothing and are dropped.
    pub(crate) fn parse(query: &str) -> Result<Self, StoreError> {
        let mut words: Vec<String> = query
            .split(|c: char| c.is_whitespace() || c == '\0')
            .filter(|word| word.contains(char::is_alphanumeric))
            .map(str::to_owned)
            .collect();
        words.dedup();
        if words.len() > MAX_WORDS {
            return Err(StoreError::NotFound(format!(
                "a search takes at most {MAX_WORDS} words and this one has {}; give fewer",
                words.len()
            )));
        }
        Ok(Self(words))
    }

    /// Returns one word in FTS5's quotes, where nothing in it is syntax. `a-b` then asks for `a` followed by `b`.
    fn quoted(word: &str) -> String {
        format!("\"{}\"", word.replace('"', "\"\""))
    }

    /// Returns the query for records that have all the words; nothing when there are none.
    pub(crate) fn all(&self) -> Option<String> {
        let quoted: Vec<String> = self.0.iter().map(|word| Self::quoted(word)).collect();
        (!quoted.is_empty()).then(|| quoted.join(" AND "))
    }

    /// Returns the rows of the threads where each word occurs in the title or in any event, ascending.
    pub(crate) fn threads(&self, connection: &Connection) -> Result<Vec<i64>, Fault> {
        let mut common: Option<Vec<i64>> = None;
        for word in &self.0 {
            let found = threads_with(connection, &Self::quoted(word), common.as_deref())?;
            if found.is_empty() {
                return Ok(found);
            }
            common = Some(found);
        }
        Ok(common.unwrap_or_default())
    }

    /// Returns text around the first match in a thread.
    pub(crate) fn snippet(
        &self,
        connection: &Connection,
        thread: i64,
        title: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        for word in &self.0 {
            let first: Option<i64> = connection
                .prepare_cached(
                    "SELECT rowid FROM event_words WHERE event_words MATCH ?1 AND rowid BETWEEN ?2 AND ?3
                     ORDER BY rowid LIMIT 1",
                )?
                .query_one(
                    params![
                        Self::quoted(word),
                        words_row(thread, 0),
                        words_row(thread + 1, 0) - 1
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(first) = first else { continue };
            let text = match place_of(first) {
                (_, 0) => title.map(str::to_owned),
                (thread, seq) => event_text(connection, thread, seq)?,
            };
            if let Some(text) = text {
                return Ok(Some(text::visible(&snippet::around(&text, word))));
            }
        }
        Ok(None)
    }
}

/// Returns the threads with a word, ascending, among `among` where that is given.
fn threads_with(connection: &Connection, quoted: &str, among: Option<&[i64]>) -> Result<Vec<i64>, Fault> {
    let (low, high) = match among {
        Some([first, .., last]) => (words_row(*first, 0), words_row(*last + 1, 0) - 1),
        Some([only]) => (words_row(*only, 0), words_row(*only + 1, 0) - 1),
        _ => (0, i64::MAX),
    };
    let mut statement = connection.prepare_cached(
        "SELECT rowid FROM event_words WHERE event_words MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid",
    )?;
    let mut rows = statement.query(params![quoted, low, high])?;
    let mut found: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        let (thread, _) = place_of(row.get(0)?);
        let new = found.last() != Some(&thread);
        if new && among.is_none_or(|among| among.binary_search(&thread).is_ok()) {
            found.push(thread);
        }
    }
    Ok(found)
}

fn event_text(connection: &Connection, thread: i64, seq: i64) -> Result<Option<String>, Fault> {
    let found: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT position, body FROM event WHERE thread = ?1 AND seq = ?2")?
        .query_one([thread, seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        Some((position, body)) => Some(words::of_event(&codec::event(position, &body)?.body)),
        None => None,
    })
}
