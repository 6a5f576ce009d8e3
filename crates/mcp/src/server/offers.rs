//! What a server offers besides tools: resources, templates of resources, prompts.

use std::path::PathBuf;
use std::time::Duration;

use pentad_model::{ThreadId, text};
use pentad_program::{Attendance, Content, ToolFailure};
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, JsonObject, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, Role, ServerResult,
};
use serde_json::Value;

use super::acting::{Act, Asked};
use super::output;
use super::party::Party;
use super::source::ConnectedServer;

/// Pages that are read of one list.
const MAX_PAGES: usize = 50;
/// Entries that are taken over from one list.
const MAX_ENTRIES: usize = 1_000;
/// Longest name, title or address that is taken over.
const MAX_NAME_BYTES: usize = 2_048;
/// Longest description that is taken over.
const MAX_DESCRIPTION_BYTES: usize = 1_024;

/// Who asks a server for something that is no tool.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The thread, where each has a process of its own.
    pub thread: ThreadId,
    /// The working folder, where each has a process of its own.
    pub cwd: PathBuf,
    /// Absolute limit; the server's own limits hold besides.
    pub time_limit: Option<Duration>,
    /// Cancellation and progress.
    pub attendance: Attendance,
}

/// One thing that can be read from a server: a resource, or a template of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOffer {
    /// Its address at the server, or the pattern of such addresses.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Its media type.
    pub mime: Option<String>,
}

/// One argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whether the prompt needs it.
    pub required: bool,
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOffer {
    /// Its name at the server.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it takes.
    pub arguments: Vec<PromptArgument>,
}

/// What a server offers besides tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offers {
    /// Resources.
    pub resources: Vec<ResourceOffer>,
    /// Patterns of resources.
    pub templates: Vec<ResourceOffer>,
    /// Prompts.
    pub prompts: Vec<PromptOffer>,
    /// The lists that have more than is taken over.
    pub cut: Vec<&'static str>,
}

/// A prompt that was filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledPrompt {
    /// What it is for.
    pub description: Option<String>,
    /// Its messages: who speaks, and what.
    pub messages: Vec<(&'static str, Content)>,
}

impl ConnectedServer {
    /// Lists what the server offers besides tools.
    ///
    /// # Errors
    /// [`ToolFailure`], as for a call.
    pub async fn offers(&self, asking: &Asking) -> Result<Offers, ToolFailure> {
        let environment = asking.attendance.environment.as_deref();
        let instance = self.instance_for(asking.thread, &asking.cwd, environment)?;
        let capabilities = {
            let lease = instance.lease().await?;
            let info = lease.connection().peer.peer_info();
            info.map(|info| info.capabilities.clone()).unwrap_or_default()
        };
        let mut offers = Offers::default();
        if capabilities.resources.is_some() {
            let listed = self.list(asking, "resources", |page| {
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page))
            });
            offers.resources = taken(listed.await?, "resources", &mut offers.cut, |entry| {
                resource(entry, "uri")
            });
            let listed = self.list(asking, "resourceTemplates", |page| {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(page))
            });
            // A server that has resources need not know templates.
            let listed = listed.await.or_else(|failure| match failure {
                ToolFailure::Failed(_) => Ok((Vec::new(), false)),
                other => Err(other),
            })?;
            offers.templates = taken(listed, "templates", &mut offers.cut, |entry| {
                resource(entry, "uriTemplate")
            });
        }
        if capabilities.prompts.is_some() {
            let listed = self.list(asking, "prompts", |page| {
                ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(page))
            });
            offers.prompts = taken(listed.await?, "prompts", &mut offers.cut, prompt);
        }
        Ok(offers)
    }

    /// Fills a prompt in.
    ///
    /// # Errors
    /// [`ToolFailure`], as for a call.
    pub async fn fill_prompt(
        &self,
        name: &str,
        arguments: JsonObject,
        asking: &Asking,
    ) -> Result<FilledPrompt, ToolFailure> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = (!arguments.is_empty()).then_some(arguments);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        match self.ask(asking, request).await? {
            ServerResult::GetPromptResult(filled) => Ok(FilledPrompt {
                description: filled.description,
                messages: filled
                    .messages
                    .into_iter()
                    .map(|message| (speaker(&message.role), output::block(message.content)))
                    .collect(),
            }),
            _ => Err(ToolFailure::Failed(
                "the server answered with something else than a prompt".to_owned(),
            )),
        }
    }

    /// Reads a whole list, page by page; tells whether there is more than is taken over.
    async fn list(
        &self,
        asking: &Asking,
        key: &str,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    ) -> Result<(Vec<Value>, bool), ToolFailure> {
        let (mut entries, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let answer = self.ask(asking, request(page)).await?;
            let mut answer = serde_json::to_value(&answer).unwrap_or_default();
            if let Some(Value::Array(page)) = answer.get_mut(key).map(Value::take) {
                entries.extend(page);
            }
            let next = answer.get("nextCursor").and_then(Value::as_str);
            match next.filter(|next| !next.is_empty()) {
                None => return Ok((entries, false)),
                Some(_) if entries.len() >= MAX_ENTRIES => break,
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        entries.truncate(MAX_ENTRIES);
        Ok((entries, true))
    }

    /// Asks for something that may be asked for twice.
    async fn ask(&self, asking: &Asking, request: ClientRequest) -> Result<ServerResult, ToolFailure> {
        self.act(Act {
            asked: Asked::Request(Box::new(request)),
            judged: None,
            repeatable: true,
            party: Party {
                attendance: &asking.attendance,
                folder: &asking.cwd,
                origin: None,
            },
            thread: asking.thread,
            time_limit: asking.time_limit,
        })
        .await
    }
}

const fn speaker(role: &Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn taken<T>(
    listed: (Vec<Value>, bool),
    name: &'static str,
    cut: &mut Vec<&'static str>,
    read: impl Fn(&Value) -> Option<T>,
) -> Vec<T> {
    let (entries, more) = listed;
    if more || entries.len() > MAX_ENTRIES {
        cut.push(name);
    }
    entries.iter().take(MAX_ENTRIES).filter_map(read).collect()
}

fn words(entry: &Value, key: &str, limit: usize) -> Option<String> {
    let found = entry.get(key)?.as_str()?;
    Some(text::excerpt(&text::visible(found), limit))
}

/// Reads one entry; without an address it is none. Addresses stay what they are: they are sent back.
fn resource(entry: &Value, key: &str) -> Option<ResourceOffer> {
    let uri = entry.get(key)?.as_str()?;
    if uri.is_empty() || uri.len() > MAX_NAME_BYTES {
        return None;
    }
    Some(ResourceOffer {
        uri: uri.to_owned(),
        name: words(entry, "title", MAX_NAME_BYTES)
            .or_else(|| words(entry, "name", MAX_NAME_BYTES))
            .unwrap_or_default(),
        description: words(entry, "description", MAX_DESCRIPTION_BYTES).unwrap_or_default(),
        mime: words(entry, "mimeType", MAX_NAME_BYTES),
    })
}

fn prompt(entry: &Value) -> Option<PromptOffer> {
    let name = entry.get("name")?.as_str()?;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    let arguments = entry.get("arguments").and_then(Value::as_array);
    let argument = |entry: &Value| {
        Some(PromptArgument {
            name: words(entry, "name", MAX_NAME_BYTES)?,
            description: words(entry, "description", MAX_DESCRIPTION_BYTES).unwrap_or_default(),
            required: entry.get("required").and_then(Value::as_bool) == Some(true),
        })
    };
    Some(PromptOffer {
        name: name.to_owned(),
        description: words(entry, "description", MAX_DESCRIPTION_BYTES)
            .or_else(|| words(entry, "title", MAX_NAME_BYTES))
            .unwrap_or_default(),
        arguments: arguments.into_iter().flatten().filter_map(argument).collect(),
    })
}
