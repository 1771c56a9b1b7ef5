//! Reports: results in, text and bytes out. Nothing here reads a file, draws load or calls back into a run.
