"""Two examples of every command: the end of its help, and the page of commands. They build on each other, in this order."""

FIRST_STEPS = """\
Samara simulates multirotors. Start with one of these:

  samara fly                         fly a square; writes a picture and a report
  samara view hover                  fly in the browser
  samara vehicle new racer           your own drone, from its parts
  samara compare --wind 0,4          controllers side by side, in wind
  samara train hover -o policy       train a policy

`samara --help` lists every command; `samara COMMAND --help` explains one."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "fly": ("samara fly hover --wind 2", "samara fly figure8 --controller pid -o out/pid"),
    "view": ("samara view hover", "samara view out/pid/run.mcap"),
    "compare": (
        "samara compare --controller geometric,pid --wind 0,4",
        "samara compare --controller mine.py:control,pid",
    ),
    "race": ("samara race hall --flights 3", "samara race hall --controller racer,geometric --flights 3 --level 1"),
    "plan": ("samara plan waypoints.csv", "samara plan waypoints.csv --vehicle iris --max-tilt 40 -o plan.png"),
    "sweep": ("samara sweep campaign.toml -o out/campaign", "samara sweep report out/campaign"),
    "sweep run": (
        "samara sweep run campaign.toml -o out/campaign",
        "samara sweep run campaign.toml -o out/campaign --additional-flights 10",
    ),
    "sweep query": (
        'samara sweep query out/campaign "select outcome, count(*) from rows group by 1"',
        'samara sweep query out/campaign "select * from rows limit 3"',
    ),
    "sweep report": ("samara sweep report out/campaign", "samara sweep report out/campaign -o campaign.html"),
    "sweep replay": (
        "samara sweep replay out/campaign --row 3",
        "samara sweep replay out/campaign --row 3 -o row3.mcap",
    ),
    "sweep falsify": (
        "samara sweep falsify campaign.toml --flights 20",
        "samara sweep falsify campaign.toml --method tpe",
    ),
    "sweep rare": ("samara sweep rare campaign.toml", "samara sweep rare campaign.toml --per-level 1000 -o rare.json"),
    "ros2": ("samara ros2 hover", "samara ros2 hover --controller mine.py:control --lockstep"),
    "sticks": ("samara sticks", "samara sticks /dev/input/js0 --calibrate -o sticks.toml"),
    "info": ("samara info out/pid/run.mcap", "samara info flight.ulg"),
    "plot": ("samara plot out/pid/run.mcap", "samara plot flight.ulg -o pictures"),
    "report": (
        "samara report out/pid/run.mcap",
        "samara report out/pid/run.mcap out/hover/latest/run.mcap -o both.html",
    ),
    "render": (
        "samara render out/pid/run.mcap -o flight.png",
        "samara render out/pid/run.mcap -o flight.gif --start 5 --stop 7",
    ),
    "replay": ("samara replay out/pid/run.mcap", "samara replay out/pid/run.mcap --vehicle iris -o again.mcap"),
    "diff": ("samara diff out/pid/run.mcap again.mcap", "samara diff out/pid/run.mcap out/pid/run.mcap"),
    "export": ("samara export csv out/pid/run.mcap", "samara export web -o fly.html"),
    "export c": ("samara export c crazyflie", "samara export c iris -o firmware"),
    "export vehicle": ("samara export vehicle iris", "samara export vehicle iris --js -o web"),
    "export policy": ("samara export policy universal", "samara export policy policy --crazyflie -o app"),
    "export mpc": ("samara export mpc --c", "samara export mpc --c --max-tilt 30 --inputs rotors --crazyflie -o app"),
    "export engine": ("samara export engine", "samara export engine --js -o web"),
    "export rigid-body": ("samara export rigid-body", "samara export rigid-body --motor-lag 0.05 --js -o web"),
    "export web": ("samara export web", "samara export web crazyflie iris -o fly.html"),
    "export drone-physics": ("samara export drone-physics", "samara export drone-physics -o library"),
    "export csv": ("samara export csv out/pid/run.mcap", "samara export csv out/pid/run.mcap -o tables"),
    "export parquet": ("samara export parquet out/pid/run.mcap", "samara export parquet out/pid/run.mcap -o tables"),
    "export foxglove-layout": (
        "samara export foxglove-layout out/pid/run.mcap",
        "samara export foxglove-layout out/pid/run.mcap -o layout.json",
    ),
    "export rerun": ("samara export rerun out/pid/run.mcap", "samara export rerun out/pid/run.mcap -o flight.rrd"),
    "export pictures": ("samara export pictures camera.mcap", "samara export pictures camera.mcap -o pictures.mcap"),
    "export ros2": ("samara export ros2 out/pid/run.mcap", "samara export ros2 out/pid/run.mcap -o bag.mcap"),
    "vehicle": ("samara vehicle new racer", "samara vehicle show iris -o mine.toml"),
    "vehicle show": ("samara vehicle show crazyflie", "samara vehicle show iris -o my_iris.toml"),
    "vehicle new": (
        "samara vehicle new racer --mass 0.65 --diagonal 0.22"
        " --motors '2207 1950KV' --props 5.1x4.3x3 --battery 6S1300",
        "samara vehicle new racer --parts parts.toml",
    ),
    "vehicle import": (
        "samara vehicle import model.sdf -o mine.toml",
        "samara vehicle import diff_all.txt --mass 0.65 --diagonal 0.22 --motors '2207 1950KV' --props 5143x3 --battery 6S1300",
    ),
    "vehicle export": ("samara vehicle export iris --sdf -o iris_model", "samara vehicle export racer.toml --px4"),
    "identify": ("samara identify flight.ulg --vehicle racer.toml", "samara identify plan racer.toml"),
    "identify logs": (
        "samara identify logs flight.ulg --vehicle racer.toml",
        "samara identify logs *.bbl --vehicle racer.toml -o mine.toml --report report",
    ),
    "identify plan": ("samara identify plan racer.toml", "samara identify plan racer.toml --duration 60 --max-speed 3"),
    "validate": ("samara validate racer.toml flight.ulg", "samara validate racer.toml identified.toml *.bbl"),
    "rotor": ("samara rotor apc_10x4.7", "samara rotor crazyflie_47-17 --rpm 18000 --plot"),
    "check": ("samara check iris", "samara check racer.toml hover"),
    "train": ("samara train hover", "samara train recover --vehicle iris -o policy"),
    "policy": ("samara policy check policy", "samara policy adapt policy --vehicle racer.toml"),
    "policy check": (
        "samara policy check policy",
        "samara policy check policy --flights 200 --require 'success > 0.9 @ 95%'",
    ),
    "policy adapt": (
        "samara policy adapt policy --vehicle racer.toml",
        "samara policy adapt policy flight.ulg -o adapted",
    ),
    "scenarios": ("samara scenarios", "samara scenarios | grep wind"),
    "scenario": ("samara scenario show wind", "samara scenario show hover -o mine.toml"),
    "scenario show": ("samara scenario show wind", "samara scenario show hover -o my_hover.toml"),
    "vehicles": ("samara vehicles", "samara vehicles iris racer.toml"),
    "controllers": ("samara controllers", "samara controllers | grep policy"),
    "tasks": ("samara tasks", "samara tasks | grep hover"),
}
