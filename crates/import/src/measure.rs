//! What a client's model reads of its tools before and after.

use serde_json::Value;

/// Bytes of JSON that one token is taken for: an estimate, and said to be one.
const BYTES_OF_TOKEN: u64 = 4;

/// The tools of one server as a client puts them in front of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaSize {
    /// How many tools.
    pub tools: u64,
    /// Their schemas in bytes.
    pub bytes: u64,
}

/// Knows the tools of servers.
pub trait ToolSchemas {
    /// Returns how large the schemas of a server of ours are, if that is known.
    fn size_of(&self, server: &str) -> Option<SchemaSize>;
}

/// Knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unknown;

impl ToolSchemas for Unknown {
    fn size_of(&self, _: &str) -> Option<SchemaSize> {
        None
    }
}

/// What the tools weigh.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The servers whose tools are known, together.
    pub known: Option<SchemaSize>,
    /// The servers whose tools are not known; nothing is guessed for them.
    pub unknown: Vec<String>,
    /// The five tools that are left.
    pub after_bytes: u64,
}

impl Payload {
    /// Adds up what is known of `servers`.
    pub fn of<'s>(servers: impl IntoIterator<Item = &'s str>, schemas: &dyn ToolSchemas) -> Self {
        let mut payload = Self {
            after_bytes: bytes_of(&pentad_model::contract::tools()),
            ..Self::default()
        };
        for server in servers {
            match schemas.size_of(server) {
                Some(size) => {
                    let known = payload.known.get_or_insert(SchemaSize { tools: 0, bytes: 0 });
                    known.tools += size.tools;
                    known.bytes += size.bytes;
                }
                None => payload.unknown.push(server.to_owned()),
            }
        }
        payload
    }
}

/// Returns the bytes of tools as JSON.
#[must_use]
pub fn bytes_of(tools: &[Value]) -> u64 {
    tools.iter().map(|tool| tool.to_string().len() as u64).sum()
}

/// Returns the tokens that so many bytes are likely to be.
#[must_use]
pub const fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_OF_TOKEN)
}
