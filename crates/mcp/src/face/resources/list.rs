//! What a client sees before it reads: where to begin, and the forms of addresses.

use rmcp::model::{Resource, ResourceTemplate};

use super::uri;

/// Options that every read takes, as a template writes them.
const VIEW: &str = "{?lines,bytes,grep}";
const MIME: &str = "text/markdown";

/// Address, name, description.
const ENTRIES: [(&str, &str, &str); 6] = [
    (
        "~/tools/",
        "tools",
        "Every tool that can be called; ?query=… searches",
    ),
    ("~/memory/", "memory", "The agent's files"),
    ("~/self", "self", "This agent: grants, memory, workspace"),
    ("thread:", "threads", "Conversations; ?query=… searches"),
    ("run:", "runs", "Executions, newest first; ?status=… filters"),
    (
        "activity:",
        "activity",
        "What happened, by actor, verb, thread and time",
    ),
];

/// What follows the scheme, name, description.
const FORMS: [(&str, &str, &str); 13] = [
    (
        "~/memory/{path}",
        "memory file",
        "A file of the agent's memory; a trailing / lists",
    ),
    (
        "~/tools/{tool}",
        "tool",
        "A tool's contract, by name or source/name",
    ),
    ("thread:{id}", "thread", "A conversation"),
    ("run:{run}", "run", "An execution, by id or name"),
    ("run:{run}/journal", "run journal", "What an execution did"),
    (
        "run:{run}/output",
        "run output",
        "What an execution returned, in full",
    ),
    (
        "run:{run}/artifacts/{name}",
        "run artifact",
        "A file that an execution kept",
    ),
    ("approval:{id}", "approval", "A request for a person's approval"),
    ("attachment:{cid}", "attachment", "An attached file or image"),
    (
        "file:{path}",
        "file",
        "A file, relative to the workspace or absolute",
    ),
    ("https://{page}", "web page", "A page as Markdown"),
    (
        "mcp:{server}/{uri}",
        "server resource",
        "A resource of a connected MCP server",
    ),
    ("agent:{name}", "agent", "An agent of this home"),
];

/// Returns where reading begins. It is the same for everybody and at all times: what there is beneath is read.
pub fn entries() -> Vec<Resource> {
    ENTRIES
        .into_iter()
        .map(|(address, name, description)| {
            Resource::new(uri::of(address), name)
                .with_description(description)
                .with_mime_type(MIME)
        })
        .collect()
}

/// Returns one template for each form of address that a client may read.
///
/// Each variable takes any text: what a template's expansion %-encodes is decoded again, slashes included.
pub fn templates() -> Vec<ResourceTemplate> {
    FORMS
        .into_iter()
        .map(|(form, name, description)| {
            ResourceTemplate::new(format!("pentad:{form}{VIEW}"), name)
                .with_description(description)
                .with_mime_type(MIME)
        })
        .collect()
}
