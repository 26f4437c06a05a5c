"""The schemes that come with the project; `lyra_opt.registry` lists them."""
