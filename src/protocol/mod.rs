//! The wire between the tool and a scenario process: bytes ↔ model values, no sockets.
