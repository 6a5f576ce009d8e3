//! Marks: where a list of threads goes on.

use pentad_model::{ThreadId, Timestamp};
use pentad_program::StoreError;

/// The place of a thread in the list: newest first by when it last changed, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) updated_at: i64,
    pub(crate) id: ThreadId,
}

impl Mark {
    /// Returns the place of a thread.
    pub(crate) const fn of(updated_at: Timestamp, id: ThreadId) -> Self {
        Self {
            updated_at: updated_at.0,
            id,
        }
    }

    /// Returns the text that a list gives out.
    pub(crate) fn text(self) -> String {
        format!("{:x}.{}", self.updated_at, self.id)
    }

    /// Parses what a list gave out.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        let parts = text.split_once('.');
        let parsed = parts.and_then(|(at, id)| {
            let bits = u64::from_str_radix(at, 16).ok()?;
            Some(Self {
                updated_at: i64::from_ne_bytes(bits.to_ne_bytes()),
                id: id.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| {
            StoreError::NotFound(format!(
                "'{}' is no mark of a list of threads; begin without one",
                pentad_model::text::excerpt(text, 60)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_round_trips(updated_at: i64, id: [u8; 16]) {
            let mark = Mark { updated_at, id: ThreadId(pentad_model::Id::from_bytes(id)) };
            prop_assert_eq!(Mark::parse(&mark.text()).unwrap(), mark);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,40}") {
            if let Ok(mark) = Mark::parse(&text) {
                prop_assert_eq!(mark, Mark::parse(&mark.text()).unwrap());
            }
        }
    }
}
