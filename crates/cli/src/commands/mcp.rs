use std::process::ExitCode;

use pentad_model::Name;

use crate::args::Globals;
use crate::invoke::block_on_here;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  claude mcp add pentad -- pentad mcp
  pentad mcp --thread 7k2m9q4x --agent reviewer

In a client's configuration:
  {\"mcpServers\": {\"pentad\": {\"command\": \"pentad\", \"args\": [\"mcp\"]}}}";

/// Serve the five verbs to an MCP client over standard input and output
///
/// This is what a client starts. Standard output carries the protocol and nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The client's name, when it does not introduce itself
    #[arg(long, value_name = "NAME")]
    pub client: Option<Name>,
}

impl Args {
    pub fn run(self, globals: &Globals, _terminal: &Terminal) -> anyhow::Result<ExitCode> {
        block_on_here(crate::house::serve_mcp(globals, self.client))?.map(|()| ExitCode::SUCCESS)
    }
}
