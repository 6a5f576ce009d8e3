use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::args::Globals;
use crate::house::House;
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad attach photo.png
  pentad attach data.bin --mime application/x-custom
  pentad write ~/memory/photo.png --option fromAttachment=$(pentad attach photo.png | cut -d: -f2)";

/// Keep a file by its content, readable as attachment:CID
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file
    pub file: PathBuf,
    /// Another name for it
    #[arg(long)]
    pub name: Option<String>,
    /// Its media type, when the content does not tell
    #[arg(long, value_name = "TYPE")]
    pub mime: Option<String>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let file = std::fs::canonicalize(&self.file)
            .with_context(|| format!("{} cannot be read", self.file.display()))?;
        if !file.is_file() {
            anyhow::bail!("{} is no file", self.file.display());
        }
        let name = self
            .name
            .or_else(|| Some(self.file.file_name()?.to_string_lossy().into_owned()));
        block_on(async {
            let house = House::open(globals).await?;
            let attached = house.desk.attach(&file, name).await;
            house.close().await;
            let attachment = attached?;
            let out = if terminal.json {
                serde_json::to_string(&attachment)?
            } else {
                format!("attachment:{}", attachment.cid)
            };
            Ok(terminal.emit(&Rendered::data(out + "\n", 0)))
        })?
    }
}
