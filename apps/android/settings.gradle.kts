pluginManagement { repositories { google(); mavenCentral() } }

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
        maven { url = uri("models/digits/maven") }
    }
}

rootProject.name = "deploykit-app"
include(":app")
