//! The crate's integration tests: one program, so that they are linked once.

mod addresses;
mod cable_failures;
mod chosen_routes;
mod daemon_networks;
mod difference;
mod disruptions;
mod expectations;
mod file_kinds;
mod formation;
mod forwarders;
mod given;
mod ground_links;
mod information;
mod kinds;
mod live;
mod networks;
mod placement;
mod planner;
mod port_routes;
mod satellite_files;
mod shipped;
mod sky;
mod skyless;
