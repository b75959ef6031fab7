"""ROS 2 topics without a ROS installation, over Eclipse Cyclone DDS (the extra `ros2`)."""
