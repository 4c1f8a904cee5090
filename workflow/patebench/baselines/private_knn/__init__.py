"""Private-kNN (Zhu, Yu, Chandraker, Wang, CVPR 2020): private records near a public sample vote on its label."""
