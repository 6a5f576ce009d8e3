//! What writing takes, per address family.

use super::{Kind, OptionSpec, spec};
use crate::address::Family;

/// What writing a family takes.
#[derive(Debug, Clone, Copy)]
pub struct WriteForm {
    /// The declared options.
    pub options: &'static [OptionSpec],
    /// Whether `dryRun` is honoured.
    pub dry_run: bool,
    /// One line of description.
    pub doc: &'static str,
}

const DELETE: OptionSpec = spec("delete", Kind::Flag, "delete instead of writing");

/// Returns what writing `family` takes; `None` where it cannot be written.
#[must_use]
pub const fn write_form(family: Family) -> Option<WriteForm> {
    match family {
        Family::Memory => Some(WriteForm {
            options: const {
                &[
                    DELETE,
                    spec("fromUrl", Kind::Text, "download this URL into the file"),
                    spec(
                        "fromAttachment",
                        Kind::Text,
                        "copy this attachment (its CID) into the file",
                    ),
                ]
            },
            dry_run: true,
            doc: "content replaces the file",
        }),
        Family::Tool => Some(WriteForm {
            options: const {
                &[
                    DELETE,
                    spec(
                        "tool",
                        Kind::Object,
                        "the tool document as an object, instead of content",
                    ),
                ]
            },
            dry_run: true,
            doc: "content is a recipe (Markdown or JSON) or a lambda",
        }),
        Family::File => Some(WriteForm {
            options: const { &[DELETE] },
            dry_run: true,
            doc: "content replaces the file; needs a grant",
        }),
        Family::Run => Some(WriteForm {
            options: const {
                &[
                    spec(
                        "cancel",
                        Kind::Flag,
                        "end the run and everything below it; content is the reason",
                    ),
                    spec(
                        "signal",
                        Kind::Text,
                        "send the event of this name; content is its value, as JSON or text",
                    ),
                    spec(
                        "answer",
                        Kind::Number {
                            min: 0,
                            max: u32::MAX as u64,
                        },
                        "answer what it waits for at this place; content is JSON, for a budget {\"tokens\":…}",
                    ),
                    spec(
                        "retry",
                        Kind::Flag,
                        "start a run that has ended again, from its beginning",
                    ),
                ]
            },
            dry_run: true,
            doc: "steers the run by exactly one of its options",
        }),
        Family::Triggers | Family::Channels => Some(WriteForm {
            options: const { &[DELETE] },
            dry_run: false,
            doc: "a trigger or channel document",
        }),
        Family::Hypermedia => Some(WriteForm {
            options: &[],
            dry_run: false,
            doc: "publishing; needs a grant",
        }),
        Family::ToolList
        | Family::SelfAgent
        | Family::ThreadList
        | Family::Thread
        | Family::RunList
        | Family::RunJournal
        | Family::RunOutput
        | Family::Approvals
        | Family::Activity
        | Family::Attachment
        | Family::Web
        | Family::Mcp
        | Family::Agents => None,
    }
}

/// The forms that can be written, for refusals.
pub const WRITABLE: &[Family] = &[
    Family::Memory,
    Family::Tool,
    Family::File,
    Family::Triggers,
    Family::Channels,
    Family::Hypermedia,
    Family::Run,
];
