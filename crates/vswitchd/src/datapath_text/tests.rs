mod acting;
mod composing;
mod reading;
mod tunnels;
mod writing;
