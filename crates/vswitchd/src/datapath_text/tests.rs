mod acting;
mod composing;
mod pushing;
mod reading;
mod tunnels;
mod writing;
